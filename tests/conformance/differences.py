"""Where the backends differ, each with its reason. The suite asks this table and nothing else; docs/backends.md prints it
(and test_table.py holds the two equal).
"""
import typing


class Difference(typing.NamedTuple):
    backend: str  # which one deviates from what the suite describes
    what: str
    why: str


DIFFERENCES = {
    "magics": Difference(
        "daytona", "Lines of IPython (`!command`, `%magic`, `%%magic`, top-level `await`) are syntax errors.",
        "Daytona's interpreter is plain Python."),
    "display": Difference(
        "daytona", "There is no `display()`.",
        "Daytona's interpreter is plain Python."),
}


def table():
    """The table as docs/backends.md has it."""
    rows = ["| name | backend | difference | reason |", "|---|---|---|---|"]
    rows += [f"| {name} | {d.backend} | {d.what} | {d.why} |" for name, d in DIFFERENCES.items()]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
