import pytest
from slug import slug


@pytest.mark.parametrize(("text", "wanted"), [("Hello  World", "hello-world"), ("one", "one")])
def test_slug(text, wanted):
    assert slug(text) == wanted
