"""The table of differences is the document's, and nothing in it is idle."""
import os
import re

from conftest import SOURCE
from differences import DIFFERENCES, table

HERE = os.path.dirname(os.path.abspath(__file__))


def test_the_document_prints_the_table():
    with open(os.path.join(SOURCE, "docs", "backends.md")) as f:
        assert table() in f.read(), "docs/backends.md: put in the output of `python3 tests/conformance/differences.py`"


def test_each_difference_is_asked_for():
    asked = set()
    for name in os.listdir(HERE):
        if name.startswith("test_"):
            with open(os.path.join(HERE, name)) as f:
                asked |= set(re.findall(r'differs\("(\w+)"\)', f.read()))
    assert asked == set(DIFFERENCES)
