from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_each_module_has_a_function_of_its_name():
    assert all(callable(getattr(import_module(path.stem), path.stem)) for path in ROOT.glob("*.py"))
