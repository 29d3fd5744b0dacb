"""What people use today, measured beside waterclock: the same jobs on the same machine in the same run."""

from collections.abc import AsyncGenerator
from functools import partial

from bench.peers.measurement import measure
from bench.peers.peer import PEERS, Peer
from bench.plan import Plan, Scenario
from bench.result import Result

__all__ = ["PEERS", "peers"]


def peers() -> dict[str, Scenario]:
    return {f"peer/{name}": partial(_scenario, name, peer) for name, peer in PEERS.items()}


def _scenario(name: str, peer: Peer, plan: Plan) -> AsyncGenerator[Result, None]:
    return measure(name, peer, plan)
