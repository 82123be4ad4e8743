import pytest
from initials import initials


@pytest.mark.parametrize(("text", "wanted"), [("ada lovelace", "AL"), ("grace", "G"), ("", "")])
def test_initials(text, wanted):
    assert initials(text) == wanted
