"""The worker's settings for programs that a person starts: what is wrong with one is a sentence that names it.

`python -m workers.cli.usable_settings` says it, and starts nothing.
"""

from __future__ import annotations

import sys

from pydantic import ValidationError

from envelope.errors import ExitCode, error_text
from transport.errors import Misconfigured
from transport.state_folder import require_private

from ..errors import BadSettings
from ..settings import WorkerSettings


def usable_settings(**flags: object) -> WorkerSettings:
    """`flags` go before variables and files. `BadSettings` names the variable of what cannot be used."""
    try:
        settings = WorkerSettings.model_validate(flags)
        require_private(settings.state_dir)
        return settings
    except Misconfigured as e:
        raise BadSettings(e.message, hint=e.hint) from e
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        name = f"MUSTER_{'_'.join(map(str, fault['loc'])).upper()}"
        key = fault["loc"][0] if fault["loc"] else "it"
        hint = f"correct or unset {name}, or `{key}` below [workers] in the configuration file"
        raise BadSettings(f"{name} is not usable: {fault['msg'].removeprefix('Value error, ')}", hint=hint) from e


def main() -> int:
    try:
        usable_settings()
    except BadSettings as e:
        sys.stderr.write(error_text(e.message, e.hint))
        return ExitCode.USAGE
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
