"""The toolbox of a sandbox: running code. Files are in files.py."""
import asyncio
import json
import time

import tornado.iostream
import tornado.websocket

from daytona.base import Call, Refused, authorized
from daytona.box import CODE_RUN, HOME
from daytona.state import HANG

COMMAND_TIMEOUT = 10  # seconds, where a command names none
EXECUTION_TIMEOUT = 600
GRACE = 2  # seconds between the interrupt at the time-out and the kill
TIMED_OUT = 4008


def bounded(seconds, default):
    """A time-out that was asked for; none or 0: the default."""
    if seconds is None or seconds == 0:
        return default
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or seconds < 0:
        raise Refused(400, "timeout must not be negative")
    return min(seconds, HANG)


def texts(value, name):
    if value is not None and (not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values())):
        raise Refused(400, f"{name} must be an object of strings")
    return value


class Toolbox(Call):
    """A call to a sandbox's toolbox: the sandbox must be there and started."""

    async def prepare(self):
        ident = self.path_args[0]
        self.box = None
        if not authorized(self.request, self.state.key):
            return
        sandbox = self.state.find(ident)
        if sandbox is None:
            self.say_error(404, f"Sandbox with ID or name {ident} not found")
        elif sandbox.state != "started":
            self.call = self.state.called(self.kinds.get(self.request.method.lower(), "dir"), self.request.method,
                                          self.request.uri)
            self.say_error(400, "bad request: no IP address found. Is the Sandbox started?")
        else:
            sandbox.active = time.monotonic()
            self.box = sandbox.box


class CodeRun(Toolbox):
    kinds = {"post": "code_run"}

    async def do_post(self, _ident):
        body = self.json()
        code, argv = body.get("code"), body.get("argv") or []
        if not isinstance(code, str) or body.get("language") != "python":
            raise Refused(400, "code and the language python are required")
        if not isinstance(argv, list) or not all(isinstance(a, str) for a in argv):
            raise Refused(400, "argv must be a list of strings")
        status, output, charts = await self.box.run(
            ["/usr/bin/python3", "-uc", CODE_RUN, None, *argv], HOME, texts(body.get("envs"), "envs"),
            bounded(body.get("timeout"), HANG), code.encode(), charts=True)
        if status is None:
            raise Refused(408, "request timeout: command execution timeout")
        self.say({"exitCode": status, "result": output.decode(errors="replace"), "artifacts": {"charts": charts}})


class Execute(Toolbox):
    kinds = {"post": "execute"}

    async def do_post(self, _ident):
        body = self.json()
        command = body.get("command")
        if not isinstance(command, str) or not command:
            raise Refused(400, "command is required")
        status, output, _ = await self.box.run(["sh", "-c", command], body.get("cwd"), texts(body.get("envs"), "envs"),
                                               bounded(body.get("timeout"), COMMAND_TIMEOUT))
        if status is None:
            raise Refused(408, "request timeout: command execution timeout")
        self.say({"exitCode": status, "result": output.decode(errors="replace")})


class Interpreter(Toolbox):
    def there(self):
        if not self.state.switches["interpreter"]:
            raise Refused(404, "404 page not found")


class Contexts(Interpreter):
    kinds = {"get": "context", "post": "context"}

    async def do_get(self, _ident):
        self.there()
        self.say({"contexts": [c.shown() for c in self.box.contexts.values() if not c.default]})

    async def do_post(self, _ident):
        self.there()
        body = self.json()
        if body.get("language", "python") != "python":
            raise Refused(400, "unsupported language")
        self.say((await self.box.new_context(body.get("cwd"))).shown())


class OneContext(Interpreter):
    kinds = {"delete": "context"}

    async def do_delete(self, _ident, context):
        self.there()
        found = self.box.contexts.get(context)
        if found is None or found.default:
            raise Refused(404, "context not found")
        del self.box.contexts[context]
        await found.kill()
        self.say({"message": "Context deleted successfully"})


class Socket(Interpreter, tornado.websocket.WebSocketHandler):
    """The interpreter's socket: one execution, its output as it comes."""

    kinds = {"get": "interpreter"}
    task = None

    def check_origin(self, _origin):
        return True

    async def do_get(self, ident):
        self.there()
        self.gone = asyncio.Event()
        await tornado.websocket.WebSocketHandler.get(self, ident)
        self.losing = False

    def open(self, _ident):
        self.call["status"] = 101

    def on_message(self, text):
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self.execute(text))

    def on_close(self):
        self.gone.set()

    async def tell(self, chunk):
        """Sends a chunk; a reader that does not take it in time is closed, and the code runs on."""
        if self.gone.is_set() or self.losing:
            return
        try:
            await asyncio.wait_for(self.write_message(json.dumps(chunk)), self.state.switches["slow_reader_ms"] / 1000)
        except asyncio.TimeoutError:
            self.gone.set()
            self.ws_connection.stream.close()
        except (tornado.websocket.WebSocketClosedError, tornado.iostream.StreamClosedError):
            self.gone.set()

    async def execute(self, text):
        try:
            message = json.loads(text)
            code, envs = message["code"], texts(message.get("envs"), "envs")
            timeout = message.get("timeout")
            timeout = EXECUTION_TIMEOUT if timeout is None else bounded(timeout, HANG)
            if not isinstance(code, str) or not isinstance(timeout, int):
                raise KeyError
        except (ValueError, KeyError, TypeError, AttributeError, Refused):
            self.close(1002, "invalid JSON payload")
            return
        if not code:
            self.close(1008, "code is required")
            return
        context = self.box.context(message.get("contextId"))
        if context is None:
            self.close(1008, "context not found")
            return
        async with context.turn:
            if not context.active:
                await context.start()  # silently, without the state of before
            await self.run(context, code, envs, timeout)

    async def run(self, context, code, envs, timeout):
        loop = asyncio.get_running_loop()
        late = [loop.call_later(timeout, context.interrupt)]
        end = loop.time() + timeout
        watch = loop.create_task(self.watch(context))
        try:
            await context.send(code, envs)
            while True:
                chunk = await asyncio.wait_for(context.chunk(), max(0.1, end + GRACE - loop.time()))
                if chunk is None:
                    await context.kill()
                    self.close(1001, "worker process ended")
                    return
                await self.tell(chunk)
                if chunk["type"] == "control":
                    break
            self.close(TIMED_OUT if chunk.get("text") == "interrupted" else 1000)
        except (asyncio.TimeoutError, ConnectionError):
            await context.kill()
            self.close(TIMED_OUT)
        finally:
            watch.cancel()
            for timer in late:
                timer.cancel()

    async def watch(self, context):
        await self.gone.wait()
        if self.state.switches["on_disconnect"] == "interrupt":
            context.interrupt()


class Dir(Toolbox):
    kinds = {"get": "dir"}

    async def do_get(self, _ident):
        self.say({"dir": HOME})


ROUTES = [(r"/process/code-run", CodeRun), (r"/process/execute", Execute), (r"/process/interpreter/context", Contexts),
          (r"/process/interpreter/context/([^/]+)", OneContext), (r"/process/interpreter/execute", Socket),
          (r"/(?:work-dir|user-home-dir)", Dir)]
