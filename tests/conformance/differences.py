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
        "daytona", "`!command`, `%magic` and `%%magic` are syntax errors; top-level `await`, `display()`, results and pictures are "
        "as in IPython.",
        "Daytona's interpreter is plain Python; what runs the code there is ours (`src/sandbox/daytona/runner.py`)."),
    "links": Difference(
        "daytona", "In lists a symbolic link is what it leads to, and is left out where it leads nowhere; a link that leads out of "
        "the workspace is followed.",
        "Daytona's toolbox tells no links; and a sandbox is the session's own machine, so there is nobody else's file to reach."),
    "evidence": Difference(
        "daytona", "For `capture` a file counts as changed when its size or its time of change is another than before; one of the "
        "same size whose time was set back is not noticed. `outputs` keeps it all the same. A link counts as what it leads to.",
        "Daytona's toolbox tells no inode and no ctime."),
}


def table():
    """The table as docs/backends.md has it."""
    rows = ["| name | backend | difference | reason |", "|---|---|---|---|"]
    rows += [f"| {name} | {d.backend} | {d.what} | {d.why} |" for name, d in DIFFERENCES.items()]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
