import pytest
from vowels import vowels


@pytest.mark.parametrize(("text", "wanted"), [("banana", 3), ("Uhu", 2), ("", 0)])
def test_vowels(text, wanted):
    assert vowels(text) == wanted
