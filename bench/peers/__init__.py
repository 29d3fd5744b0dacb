from bench.plan import Scenario
PEERS: dict[str, object] = {}
def peers() -> dict[str, Scenario]:
    return {}
