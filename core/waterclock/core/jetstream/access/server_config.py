"""What a NATS server of your own needs to know of us: accounts, users, and who says whose token is good.

`waterclock nats-config` prints it, to be included in the server's configuration. Secrets come from the server's
environment; with `--secrets` they are made, as variables of both sides.
"""

import json
import secrets
import sys

from waterclock.core.jetstream.access.permissions import ACCESS, ROLE
from waterclock.core.runtime.account_keys import Issuer, new_issuer_seed

_ISSUER = "$NATS_ISSUER"


def server_config() -> str:
    """Passwords are `$NATS_SCHEDULER_PASSWORD` and so on, the issuer's public key is `$NATS_ISSUER`."""
    variables = {name: f"$NATS_{name.upper()}_PASSWORD" for name in ROLE}
    lines = ["# Made by `waterclock nats-config`: who may do what. Values after $ come from the environment."]
    for key, value in ACCESS.config(variables, _ISSUER).items():
        text = json.dumps(value, indent=2)
        for variable in (*variables.values(), _ISSUER):
            text = text.replace(f'"{variable}"', variable)
        lines.append(f"{key}: {text}")
    return "\n".join(lines)


def new_secrets() -> str:
    """As lines of an `.env`. Letters first: nats-server would read a value that starts with a digit as a number."""
    seed = new_issuer_seed()
    found = {f"NATS_{name.upper()}_PASSWORD": f"s{secrets.token_hex(24)}" for name in ROLE}
    found |= {"NATS_ISSUER": Issuer(seed).public_key, "NATS_ISSUER_SEED": seed}
    return "\n".join(f"WATERCLOCK_{name}={value}" for name, value in found.items())


if __name__ == "__main__":
    print(new_secrets() if sys.argv[1:] == ["--secrets"] else server_config())
