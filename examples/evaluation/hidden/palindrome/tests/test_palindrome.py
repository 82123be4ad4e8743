import pytest
from palindrome import palindrome


@pytest.mark.parametrize(("text", "wanted"), [("anna", True), ("ann", False)])
def test_palindrome(text, wanted):
    assert palindrome(text) == wanted
