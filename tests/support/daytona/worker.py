"""The interpreter of one context, run inside the sandbox: commands on descriptor 0, chunks on descriptor 1, a JSON line
each. Real output and input share those descriptors with the protocol, as they may in the real thing: what a child
process writes is no chunk and is lost, and code that reads its standard input reads the commands.
"""
import io
import json
import signal
import sys
import traceback

LINE = 1 << 20  # characters in one chunk at most
HELD = 8192  # characters kept back at most while a line is not finished

commands, chunks = sys.stdin, sys.stdout
running = False


def emit(**chunk):
    chunks.write(json.dumps(chunk) + "\n")
    chunks.flush()


class Stream(io.TextIOBase):
    """sys.stdout or sys.stderr of the code: a chunk at each end of a line, each flush, and when much is held."""

    encoding = "utf-8"

    def __init__(self, name):
        self.name, self.held, self.size = name, [], 0

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.held.append(text)
        self.size += len(text)
        if "\n" in text or self.size > HELD:
            self.flush()
        return len(text)

    def flush(self):
        text, self.held, self.size = "".join(self.held), [], 0
        for at in range(0, len(text), LINE):
            emit(type=self.name, text=text[at:at + LINE])


def interrupt(_signal, _frame):
    if running:
        raise KeyboardInterrupt


def run(code, space):
    """Runs code as a module's body; returns the word that ends the execution."""
    global running
    try:
        running = True
        exec(compile(code, "<string>", "exec"), space)
    except KeyboardInterrupt:
        running = False
        return "interrupted"
    except BaseException as error:
        running = False
        frames = traceback.format_exception(type(error), error, error.__traceback__.tb_next if error.__traceback__ else None)
        try:
            value = str(error)
        except Exception:
            value = "<unprintable>"
        sys.stdout.flush()
        emit(type="error", name=type(error).__name__, value=value, traceback="".join(frames))
    finally:
        running = False
    return "completed"


def main():
    import os

    signal.signal(signal.SIGINT, interrupt)
    space = {"__name__": "__main__", "__doc__": None, "__package__": None, "__builtins__": __builtins__}
    for line in commands:
        command = json.loads(line)
        before = dict(os.environ)
        os.environ.update(command.get("envs") or {})
        sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")
        ended = run(command["code"], space)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass  # the code put something of its own there
        for name in (command.get("envs") or {}):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]
        emit(type="control", text=ended)


main()
