# What runs a session's code inside Daytona's interpreter, sent there once a context and kept as the module _husk.
#
# The interpreter gives a child process its own standard streams, which carry its protocol, shows no value, takes
# sys.exit() for an ordinary end, and stops for good at a line of over a MiB; see docs/backends.md. Here the code gets what
# it would have in a Jupyter kernel instead: results, display(), pictures, exceptions whole, no standard input.
#
# What is not text goes out as text of its own on the standard output: \x1e, the run's nonce, a letter (n the number of
# the run, d display, u update, r result, e error, + more of it follows), JSON, a newline.
import ast
import base64
import builtins
import codecs
import getpass
import importlib.util
import io
import json
import linecache
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import types

PIECE = 32768  # characters of one chunk: with their escapes far from a MiB
FORMATS = (("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_svg_", "image/svg+xml"),
           ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"), ("_repr_latex_", "text/latex"),
           ("_repr_json_", "application/json"), ("_repr_javascript_", "application/javascript"))
FUTURE = 0
for _name in __import__("__future__").all_feature_names:
    FUTURE |= getattr(__import__("__future__"), _name).compiler_flag
AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class StdinNotImplementedError(NotImplementedError):
    pass


def no_input(prompt="", stream=None):
    raise StdinNotImplementedError("nobody answers here: input() is not supported")


class Stream(io.TextIOBase):
    """sys.stdout or sys.stderr of one run, in pieces that the interpreter can carry, never torn by an interrupt."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, base, number):
        self.base, self.number = base, number

    def writable(self):
        return True

    def fileno(self):
        return self.number

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        if self.base is not None:
            with guard:
                for at in range(0, len(text), PIECE):
                    self.base.write(text[at:at + PIECE])
                    if len(text) > PIECE:
                        self.base.flush()
        return len(text)

    def flush(self):
        if self.base is not None:
            with guard:
                self.base.flush()


class Guard:
    """One writer at a time; an interrupt that comes while it writes is kept until it has."""

    def __init__(self):
        self.lock, self.inside, self.pending, self.running = threading.RLock(), 0, False, False

    def __enter__(self):
        main = threading.current_thread() is threading.main_thread()
        if main:
            self.inside += 1
        self.lock.acquire()
        return self

    def __exit__(self, *_):
        self.lock.release()
        if threading.current_thread() is threading.main_thread():
            self.inside -= 1
            if self.pending and not self.inside:
                self.pending = False
                if self.running:
                    raise KeyboardInterrupt

    def interrupted(self, _signal, _frame):
        if not self.running:
            return
        if self.inside:
            self.pending = True
        else:
            raise KeyboardInterrupt


guard = Guard()
state = types.SimpleNamespace(out=None, err=None, nonce="", count=0, flags=0, loop=None, carriers={})


def say(letter, value):
    text = json.dumps(value, default=repr)
    base = state.out and state.out.base
    if base is None:
        return
    with guard:
        base.flush()
        for at in range(0, len(text), PIECE):
            more = "+" if at + PIECE < len(text) else letter
            base.write("\x1e" + state.nonce + more + text[at:at + PIECE] + "\n")
            base.flush()


# Values

def plain(value):
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def bundle(thing):
    data, metadata = {}, {}
    own = getattr(type(thing), "_repr_mimebundle_", None)
    if own is not None:
        try:
            made = own(thing, include=None, exclude=None)
            made, more = made if isinstance(made, tuple) else (made, {})
            data.update({k: plain(v) for k, v in (made or {}).items()})
            metadata.update(more or {})
        except Exception:
            traceback.print_exc()
    for method, media in FORMATS:
        own = getattr(type(thing), method, None)
        if own is None or media in data:
            continue
        try:
            made = own(thing)
        except Exception:
            traceback.print_exc()
            continue
        if isinstance(made, tuple):
            made, metadata[media] = made
        if made is not None:
            data[media] = plain(made)
    figure = sys.modules.get("matplotlib.figure")
    if figure is not None and isinstance(thing, figure.Figure) and "image/png" not in data:
        data["image/png"] = picture(thing)
    if "text/plain" not in data:
        data["text/plain"] = repr(thing)
    return data, metadata


def display(*things, raw=False, metadata=None, display_id=None, transient=None, update=False, **_):
    if display_id is True:
        display_id = os.urandom(16).hex()
    for thing in things:
        data, more = (thing, {}) if raw else bundle(thing)
        content = {"data": data, "metadata": {**more, **(metadata or {})}, "transient": dict(transient or {})}
        if display_id is not None:
            content["transient"]["display_id"] = display_id
        say("u" if update else "d", content)
    if display_id is not None:
        return Handle(display_id)


class Handle:
    def __init__(self, display_id):
        self.display_id = display_id

    def display(self, thing, **more):
        display(thing, display_id=self.display_id, **more)

    def update(self, thing, **more):
        display(thing, display_id=self.display_id, update=True, **more)


def picture(figure):
    made = io.BytesIO()
    figure.savefig(made, format="png", bbox_inches="tight")
    return plain(made.getvalue())


def show_figures(*_, **__):
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None or plt.get_backend() != "module://_husk_figures":
        return
    for number in plt.get_fignums():
        figure = plt.figure(number)
        say("d", {"data": {"image/png": picture(figure), "text/plain": repr(figure)}, "metadata": {}})
    plt.close("all")


class Figures:
    """Finds and makes the backend of matplotlib: Agg, whose figures are shown."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.util.spec_from_loader(name, Figures) if name == "_husk_figures" else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        import matplotlib.backends.backend_agg as agg
        module.__dict__.update({k: v for k, v in vars(agg).items() if not k.startswith("__")}, show=show_figures)


# Children get standard streams of ours: what they print is the run's, and there is nothing to read.

class Carrier:
    """What children write to a descriptor, carried on to a stream of the run that goes on; dropped where none does."""

    def __init__(self, name):
        self.name, self.busy = name, False
        self.read, self.write = os.pipe()
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        threading.Thread(target=self.carry, daemon=True).start()

    def carry(self):
        while True:
            select.select([self.read], [], [])
            self.busy = True
            text = self.decode(os.read(self.read, 65536))
            stream = getattr(state, self.name)
            if stream is not None:
                stream.write(text)
            self.busy = False

    def settled(self):
        return not self.busy and not select.select([self.read], [], [], 0)[0] and not self.busy


def pipe(name):
    if name not in state.carriers:
        state.carriers[name] = Carrier(name)
    return state.carriers[name].write


def settle():
    """Until what children wrote has been carried on; bounded, for they may go on writing."""
    end = time.monotonic() + 0.5
    while not all(c.settled() for c in state.carriers.values()) and time.monotonic() < end:
        time.sleep(0.002)


def take_over_children():
    handles = getattr(subprocess.Popen, "_get_handles", None)
    if handles is None:
        return

    def get_handles(self, stdin, stdout, stderr):
        return handles(self, subprocess.DEVNULL if stdin is None else stdin, pipe("out") if stdout is None else stdout,
                       pipe("err") if stderr is None else stderr)

    def system(command):
        code = subprocess.call(command, shell=True)
        return code << 8 if code >= 0 else -code

    subprocess.Popen._get_handles = get_handles
    os.system = system


# Running

def parsed(code, name):
    """(code objects of the body and of a last expression, or None)."""
    flags = state.flags | AWAIT
    tree = compile(code, name, "exec", flags | ast.PyCF_ONLY_AST, True)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not silent(code):
        last = ast.Expression(tree.body.pop().value)
    body = compile(tree, name, "exec", flags, True)
    state.flags |= body.co_flags & FUTURE
    return body, last and compile(last, name, "eval", state.flags | AWAIT, True)


def silent(code):
    """Whether the last line ends in a semicolon, which asks for no value."""
    import tokenize
    try:
        words = [t for t in tokenize.generate_tokens(io.StringIO(code).readline)
                 if t.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT,
                                   tokenize.DEDENT)]
    except (tokenize.TokenError, SyntaxError):
        return False
    return bool(words) and words[-1].string == ";"


def evaluated(code, space):
    value = eval(code, space)
    if code.co_flags & 0x80:  # CO_COROUTINE: there is an await outside of any function
        import asyncio
        if state.loop is None:
            state.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(state.loop)
        return state.loop.run_until_complete(value)
    return value


def failed(error):
    """The error as it is told; frames of ours are left out."""
    try:
        value = str(error)
    except Exception:
        value = "<exception str() failed>"
    try:
        told = step = traceback.TracebackException.from_exception(error)
        while step is not None:
            step.stack = traceback.StackSummary.from_list([f for f in step.stack if f.filename != __file__])
            step = step.__cause__ or step.__context__
        lines = [line.rstrip("\n") for line in told.format()]
    except Exception:
        lines = [type(error).__name__]
    say("e", {"ename": type(error).__name__, "evalue": value, "traceback": lines})


def attempt(code, space):
    name = "<cell %d>" % state.count
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    body, last = parsed(code, name)
    evaluated(body, space)
    if last is not None:
        value = evaluated(last, space)
        if value is not None:
            space["_"] = value
            data, metadata = bundle(value)
            say("r", {"data": data, "metadata": metadata, "execution_count": state.count})
    show_figures()


def run(nonce, code, space):
    state.count += 1
    state.nonce = nonce
    given = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.StringIO()
    state.out = sys.stdout = Stream(given[1], 1)
    state.err = sys.stderr = Stream(given[2], 2)
    builtins.input, getpass.getpass, builtins.display = no_input, no_input, display
    signal.signal(signal.SIGINT, guard.interrupted)
    say("n", {"execution_count": state.count})
    try:
        try:
            guard.pending, guard.running = False, True
            attempt(code, space)
            guard.running = False
        except BaseException as error:
            guard.running = False
            failed(error)
            del error
    except KeyboardInterrupt:  # between the two
        guard.running = False
        failed(KeyboardInterrupt())
    finally:
        guard.running = False
        settle()
        for stream in (state.out, state.err):
            stream.flush()
            stream.base = None  # a thread that prints on prints to nobody
        state.out = state.err = None
        sys.stdin, sys.stdout, sys.stderr = given


take_over_children()
sys.meta_path.append(Figures)
os.environ.setdefault("MPLBACKEND", "module://_husk_figures")
