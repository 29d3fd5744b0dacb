"""How the output of a run is named in the store, and to people."""


def log_name(run_id: str, attempt: int) -> str:
    return f"{run_id}/{attempt}"


def log_url(run_id: str) -> str:
    return f"/v1/runs/{run_id}/log"
