import pytest
from longest import longest


@pytest.mark.parametrize(("text", "wanted"), [("a bcd ef gh", "bcd"), ("", "")])
def test_longest(text, wanted):
    assert longest(text) == wanted
