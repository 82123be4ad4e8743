"""mini-swe-agent as a library: litellm, and a shell command a turn."""

from __future__ import annotations

import os

os.environ["MSWEA_SILENT_STARTUP"] = "1"  # its greeting would stand before the figures
os.environ["MSWEA_COST_TRACKING"] = "ignore_errors"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

from ..agent_scripts import prompt


def converse(url: str, turns: int) -> None:
    model = LitellmModel(model_name="openai/scripted", model_kwargs={"api_base": url, "api_key": "nobody"})
    agent = DefaultAgent(
        model, LocalEnvironment(), system_template="You run commands.", instance_template="{{task}}", step_limit=turns
    )
    agent.run(prompt("bash", turns))
    assert agent.n_calls == turns, agent.n_calls
