"""What all calls of the stand-in share: the key, the switches, the record, and the shape of an error."""
import asyncio
import hmac
import json
import urllib.parse

import tornado.web

from daytona.state import HANG
from daytona.box import Full, stamp


class Refused(Exception):
    """An error answer: status, message, code."""

    def __init__(self, status, message, code=None):
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


def authorized(request, key):
    given = request.headers.get("Authorization", "")
    return hmac.compare_digest(given.encode(), ("Bearer " + key).encode())


class Call(tornado.web.RequestHandler):
    """kind(method) names the call; a handler's do_METHOD does it and answers by say()."""

    kinds = {}  # by method

    def initialize(self, state):
        self.state = state
        self.call = None
        self.losing = False

    def check_xsrf_cookie(self):
        pass

    def query(self, name, default=None):
        """A query argument exactly as it was sent."""
        values = urllib.parse.parse_qs(self.request.query, keep_blank_values=True).get(name)
        return values[0] if values else default

    def json(self):
        if self.request.body and self.request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "the body is not application/json")
        try:
            body = json.loads(self.request.body or b"{}")
        except ValueError:
            raise Refused(400, "the body is not JSON") from None
        if not isinstance(body, dict):
            raise Refused(400, "the body is not an object")
        return body

    def compute_etag(self):
        return None

    def say(self, body, status=200):
        if self.losing:
            return
        self.set_status(status)
        if isinstance(body, list):
            self.set_header("Content-Type", "application/json")
            body = json.dumps(body)
        self.finish(body)

    def say_error(self, status, message, code=None):
        self.clear()
        self.set_status(status)
        self.finish({"statusCode": status, "message": message, "code": code or "", "timestamp": stamp(),
                     "path": self.request.path, "method": self.request.method})

    async def meet_switches(self, kind):
        """True where a switch has met the call already."""
        slow = self.state.switch("slow", kind)
        if slow:
            await asyncio.sleep(min(slow / 1000, HANG))
        if self.state.take("hang", kind):
            await asyncio.sleep(HANG)
            self.request.connection.stream.close()
            return True
        failing = self.state.take("fail", kind)
        if failing:
            self.say_error(failing[0], "scripted failure")
            return True
        if self.state.take("redirect", kind):
            self.set_status(302)
            self.set_header("Location", f"{self.request.protocol}://{self.request.host}/_elsewhere" + self.request.path)
            self.finish()
            return True
        if self.state.take("garbage", kind):
            self.set_header("Content-Type", "text/html")
            self.finish("<html>welcome</html>")
            return True
        if self.state.take("drop", kind):
            self.request.connection.stream.close()
            return True
        return False

    async def _call(self, *args):
        method = self.request.method.lower()
        kind = self.kinds.get(method)
        if kind is None:
            self.say_error(405, "method not allowed")
            return
        if not authorized(self.request, self.state.key):
            self.state.refused += 1
            self.say_error(401, "Unauthorized")
            return
        self.call = self.state.called(kind, self.request.method, self.request.uri)
        try:
            if await self.meet_switches(kind):
                return
            self.losing = bool(self.state.take("lose", kind))
            await getattr(self, "do_" + method)(*args)
            if self.losing:
                await asyncio.sleep(HANG)
                self.request.connection.stream.close()
        except Refused as refused:
            self.say_error(refused.status, refused.message, refused.code)
        except Full as full:
            self.say_error(429, str(full))

    get = post = put = delete = _call

    def on_finish(self):
        if self.call is not None:
            self.call["status"] = self.get_status()
