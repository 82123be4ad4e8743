import pytest
from backwards import backwards


@pytest.mark.parametrize(("text", "wanted"), [("a b c", "c b a"), ("one", "one"), ("two words", "words two")])
def test_backwards(text, wanted):
    assert backwards(text) == wanted
