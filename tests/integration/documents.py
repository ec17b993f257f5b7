"""The commands and settings that docs/ gives, for tests that run them as they stand."""
import os
import re
import subprocess
import tempfile

from stack import SOURCE


def blocks(name, language="sh"):
    """What stands in the document between ```language and ```, in order."""
    with open(os.path.join(SOURCE, "docs", name)) as f:
        return [text for called, text in re.findall(r"^```(\w*)\n(.*?)^```$", f.read(), re.M | re.S) if called == language]


class Terminal:
    """Runs one block after the other in a folder; what one defines, functions and small-letter variables, the next has."""

    def __init__(self, folder, state, **environment):
        self.folder, self.state = folder, state
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environment}

    def run(self, block):
        """A command that fails is a failed test."""
        script = (f". {self.state} 2>/dev/null || true\nset -euo pipefail\ncd {self.folder}\n{block}\n"
                  f"{{ declare -f; declare -p $(compgen -v | grep '^[a-z_]*$') 2>/dev/null || true; }} >{self.state}\n")
        # no pipe: what is left running in the background would keep it open
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(["bash", "-c", script], env=self.environment, stdin=subprocess.DEVNULL, stdout=said,
                                  stderr=subprocess.STDOUT, timeout=60)
            said.seek(0)
            assert done.returncode == 0, f"{block}\n--- said:\n{said.read()}"
