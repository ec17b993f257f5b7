"""The interpreter of one context, run inside the sandbox: commands on descriptor 0, chunks on descriptor 1, a JSON line
each.

It has the weaknesses of the real one (its public source up to v0.190.0 shows them), so that nothing relies on their not
being there: code shares both descriptors with the protocol, so what a child process writes is no chunk, or spoils one, and
what code reads from its standard input are commands; an expression's value is not shown; sys.exit() is an ordinary end; a
KeyboardInterrupt of the code's own looks like an interrupt; a line of over 1 MiB is not read, nor anything after it.
"""
import io
import json
import os
import signal
import sys
import traceback

HELD = 1024  # characters kept back while a line is not finished


def emit(**chunk):
    sys.__stdout__.write(json.dumps({"type": "", "text": "", "name": "", "value": "", "traceback": "", **chunk}) + "\n")
    sys.__stdout__.flush()


class Stream(io.TextIOBase):
    """sys.stdout or sys.stderr of the code."""

    encoding = "utf-8"

    def __init__(self, name):
        self.name, self.held, self.size = name, [], 0

    def writable(self):
        return True

    def write(self, text):
        text = str(text)
        self.held.append(text)
        self.size += len(text)
        if "\n" in text or self.size >= HELD:
            self.flush()
        return len(text)

    def flush(self):
        text, self.held, self.size = "".join(self.held), [], 0
        if text:
            emit(type=self.name, text=text)


def interrupt(_signal, _frame):
    raise KeyboardInterrupt("interrupted")


def told(error):
    """A traceback of the code's own lines."""
    lines = [f'  File "<stdin>", line {f.lineno}\n' for f in traceback.extract_tb(error.__traceback__) if f.filename == "<string>"]
    return ("Traceback (most recent call last):\n" + "".join(lines) if lines else "") + f"{type(error).__name__}: {error}\n"


def run(code, space):
    """Runs code as a module's body and says how it ended."""
    ended, failure = "completed", None
    before = sys.stdout, sys.stderr
    streams = sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")
    try:
        exec(compile(code, "<string>", "exec"), space)
    except KeyboardInterrupt:
        ended = "interrupted"
    except SystemExit:
        pass
    except Exception as error:
        failure = {"name": type(error).__name__, "value": str(error), "traceback": told(error)}
    finally:
        sys.stdout, sys.stderr = before
        for stream in streams:
            stream.flush()
        if failure:
            emit(type="error", **failure)
        emit(type="control", text=ended)


def obey(line, space):
    command = json.loads(line)
    envs = command.get("envs") or {}
    before = {name: os.environ.get(name) for name in envs}
    os.environ.update(envs)
    try:
        run(command["code"], space)
    except Exception as error:
        emit(type="error", name=type(error).__name__, value=str(error))
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def main():
    signal.signal(signal.SIGINT, interrupt)
    space = {"__name__": "__main__", "__doc__": None, "__package__": None, "__builtins__": __builtins__}
    while True:
        try:
            line = sys.stdin.readline()
            if not line:
                return
            obey(line, space)
        except KeyboardInterrupt:
            continue


main()
