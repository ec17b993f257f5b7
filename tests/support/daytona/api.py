"""Daytona's API: sandboxes."""
import json

from daytona.base import Call, Refused
from daytona.state import STATES


class Api(Call):
    def sandbox(self, ident):
        found = self.state.find(ident)
        if found is None:
            raise Refused(404, f"Sandbox with ID or name {ident} not found")
        return found

    def shown(self, sandbox):
        return sandbox.shown(self.state.switches["proxy_url"])


def positive(body, name, least):
    value = body.get(name)
    if value is not None and (not isinstance(value, int) or value < least):
        raise Refused(400, f"{name} must be an integer of at least {least}")


class Sandboxes(Api):
    kinds = {"get": "list", "post": "create"}

    async def do_post(self):
        body = self.json()
        for name in ("env", "labels"):
            table = body.get(name) or {}
            if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
                raise Refused(400, f"{name} must be an object of strings")
        positive(body, "autoStopInterval", 0)
        positive(body, "autoDeleteInterval", -1)
        if len(self.state.alive()) >= self.state.switches["quota"]:
            raise Refused(403, "Total sandbox limit exceeded")
        if self.state.find(body.get("name") or ""):
            raise Refused(409, "Sandbox with this name already exists")
        sandbox = await self.state.create(body, f"{self.request.protocol}://{self.request.host}/toolbox")
        self.say(self.shown(sandbox))

    async def do_get(self):
        try:
            limit = int(self.query("limit", "100"))
            labels = json.loads(self.query("labels", "{}"))
            after = int(self.query("cursor", "0"))
        except ValueError:
            raise Refused(400, "limit, labels or cursor is not what it should be") from None
        if not 1 <= limit <= 200 or not isinstance(labels, dict):
            raise Refused(400, "limit must not be greater than 200, labels must be an object")
        states = self.get_query_arguments("states")
        if set(states) - set(STATES):
            raise Refused(400, "each value in states must be one of the states")
        rows = [s for s in self.state.sandboxes.values()
                if (not states or s.state in states) and all(s.labels.get(k) == v for k, v in labels.items())]
        page = rows[after:after + limit]
        self.say({"items": [s.shown(self.state.switches["proxy_url"], item=True) for s in page],
                  "nextCursor": str(after + limit) if after + limit < len(rows) else None})


class One(Api):
    kinds = {"get": "get", "delete": "delete"}

    async def do_get(self, ident):
        self.say(self.shown(self.sandbox(ident)))

    async def do_delete(self, ident):
        sandbox = self.sandbox(ident)
        if sandbox.state != "destroying":
            await self.state.delete(sandbox)
        self.say(self.shown(sandbox))


class Start(Api):
    kinds = {"post": "start"}

    async def do_post(self, ident):
        sandbox = self.sandbox(ident)
        if sandbox.state not in ("stopped", "archived", "started", "starting"):
            raise Refused(400, f"Sandbox is not in valid state: {sandbox.state}")
        if sandbox.state in ("stopped", "archived"):
            await self.state.start(sandbox)
        self.say(self.shown(sandbox))


class Stop(Api):
    kinds = {"post": "stop"}

    async def do_post(self, ident):
        sandbox = self.sandbox(ident)
        if sandbox.state != "started":
            raise Refused(400, "Sandbox is not started")
        await self.state.stop(sandbox)
        self.say(self.shown(sandbox))


class Labels(Api):
    kinds = {"put": "labels"}

    async def do_put(self, ident):
        sandbox, labels = self.sandbox(ident), self.json().get("labels")
        if not isinstance(labels, dict) or not all(isinstance(v, str) for v in labels.values()):
            raise Refused(400, "labels must be an object of strings")
        sandbox.labels = labels
        self.say({"labels": labels})


class AutoStop(Api):
    kinds = {"post": "autostop"}

    async def do_post(self, ident, interval):
        sandbox = self.sandbox(ident)
        sandbox.auto_stop = int(interval)
        self.say(self.shown(sandbox))


class AutoDelete(Api):
    kinds = {"post": "autodelete"}

    async def do_post(self, ident, interval):
        sandbox = self.sandbox(ident)
        sandbox.auto_delete = int(interval)
        self.say(self.shown(sandbox))


class Activity(Api):
    kinds = {"post": "activity"}

    async def do_post(self, ident):
        self.sandbox(ident)
        self.say(b"", 201)


class ProxyUrl(Api):
    kinds = {"get": "proxy_url"}

    async def do_get(self, ident):
        self.say({"url": self.sandbox(ident).url})


ROUTES = [(r"/api/sandbox", Sandboxes), (r"/api/sandbox/([^/]+)", One), (r"/api/sandbox/([^/]+)/start", Start),
          (r"/api/sandbox/([^/]+)/stop", Stop), (r"/api/sandbox/([^/]+)/labels", Labels),
          (r"/api/sandbox/([^/]+)/autostop/(\d+)", AutoStop), (r"/api/sandbox/([^/]+)/autodelete/(-?\d+)", AutoDelete),
          (r"/api/sandbox/([^/]+)/last-activity", Activity), (r"/api/sandbox/([^/]+)/toolbox-proxy-url", ProxyUrl)]
