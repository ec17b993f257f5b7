"""The toolbox's calls for files."""
import datetime
import json
import os
import shutil
import stat
import urllib.parse
import uuid

import tornado.httputil
import tornado.iostream

from daytona.base import Refused
from daytona.box import HOME
from daytona.toolbox import Toolbox

PIECE = 65536
LISTED = 20000  # entries in one answer
BULK = 100  # files of one call
MODIFIED = "%Y-%m-%d %H:%M:%S"


def described(path, name, where=None):
    """A FileInfo, of what a link leads to; where: the whole path as the sandbox sees it."""
    info = os.stat(path)
    when = datetime.datetime.fromtimestamp(info.st_mtime, datetime.timezone.utc)
    seen = {"name": name, "size": info.st_size, "isDir": stat.S_ISDIR(info.st_mode), "mode": stat.filemode(info.st_mode).replace("?", "-"),
            "modTime": when.strftime(MODIFIED) + f".{when.microsecond:06d} +0000 UTC",
            "modifiedAt": when.isoformat().replace("+00:00", "Z"), "owner": str(info.st_uid),
            "group": str(info.st_gid), "permissions": format(stat.S_IMODE(info.st_mode), "04o")}
    if where is not None:
        seen["path"] = where
    return seen


class FileCall(Toolbox):
    def inside(self, name="path", follow=True):
        """(path in the sandbox, path on this machine) of a query argument; what is not there is refused."""
        given = self.query(name)
        if not given or "\0" in given:
            raise Refused(400, f"{name} is required")
        return self.placed(given, follow)

    def placed(self, given, follow=True):
        path = os.path.normpath(os.path.join(HOME, given))
        try:
            outside = self.box.outside(given, follow)
        except OSError as error:
            raise Refused(400, f"{error.strerror}: {path}") from None
        if outside is None:
            raise Refused(403, "permission denied: " + path, "FILE_PERMISSION_DENIED")
        return path, outside

    def existing(self, given=None, follow=True):
        path, outside = self.inside(follow=follow) if given is None else self.placed(given, follow)
        if not os.path.exists(outside):
            raise Refused(404, "file not found: " + path, "FILE_NOT_FOUND")
        return path, outside

    def store(self, given, data):
        """Writes a file, making its folder, as the real toolbox does: over what is there."""
        path, outside = self.placed(given)
        if os.path.isdir(outside):
            raise Refused(400, "is a directory: " + path)
        try:
            os.makedirs(os.path.dirname(outside), exist_ok=True)
            with open(outside, "wb") as f:
                f.write(data)
        except OSError as error:
            raise Refused(400, f"{error.strerror}: {path}") from None
        return path

    def parts(self):
        """(field name, file name, bytes) of a multipart body; file name None for a plain field."""
        arguments, files = {}, {}
        tornado.httputil.parse_body_arguments(self.request.headers.get("Content-Type", ""), self.request.body, arguments, files)
        return [(n, None, v[0]) for n, v in arguments.items()] + [(n, f[0]["filename"], f[0]["body"]) for n, f in files.items()]

    def upload_exists(self, name):
        if name not in self.state.switches["uploads"]:
            raise Refused(404, "404 page not found")

    async def send(self, path, start, length):
        """A file's bytes, written as the socket takes them."""
        with open(path, "rb") as f:
            f.seek(start)
            while length > 0 and (data := f.read(min(PIECE, length))):
                self.write(data)
                length -= len(data)
                await self.flush()
        if length:
            self.request.connection.stream.close()


class Folder(FileCall):
    kinds = {"post": "folder"}

    async def do_post(self, _ident):
        path, outside = self.inside()
        try:
            os.makedirs(outside, int(self.query("mode", "755"), 8), exist_ok=True)
        except (OSError, ValueError) as error:
            raise Refused(400, f"{error}: {path}".replace(self.box.root, "")) from None
        self.say(b"", 201)


class BulkUpload(FileCall):
    kinds = {"post": "bulk_upload"}

    async def do_post(self, _ident):
        self.upload_exists("bulk-upload")
        parts = {name: data for name, _, data in self.parts()}
        count = sum(name.endswith("].path") for name in parts)
        if not 1 <= count <= BULK:
            raise Refused(400, "no files, or too many")
        stored = []
        for i in range(count):
            path, data = parts.get(f"files[{i}].path"), parts.get(f"files[{i}].file")
            if path is None or data is None:
                raise Refused(400, f"files[{i}] has no path or no file")
            stored.append({"path": self.store(path.decode().strip(), data), "bytes": len(data)})
        self.say({"files": stored})


class UploadV2(FileCall):
    kinds = {"post": "upload_v2"}
    name = "upload-v2"

    async def do_post(self, _ident):
        self.upload_exists(self.name)
        self.inside()
        data = self.request.body
        if self.request.headers.get("Content-Type", "").startswith("multipart/form-data"):
            data = next((d for n, _, d in self.parts() if n == "file"), None)
            if data is None:
                raise Refused(400, "no file")
        path = self.store(self.query("path"), data)
        self.say({"name": os.path.basename(path), "path": path, "type": "file"})


class Upload(UploadV2):
    kinds = {"post": "upload"}
    name = "upload"


class Download(FileCall):
    kinds = {"get": "download"}

    def span(self, size):
        """(start, length, whether a part) of a Range header with one range; what is no such range is not met."""
        unit, _, given = self.request.headers.get("Range", "").partition("=")
        first, dash, last = given.partition("-")
        if not self.state.switches["ranges"] or unit != "bytes" or not dash or "," in given \
                or not (first + last).isdigit():
            return 0, size, False
        start = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1) if first and last else size
        if start >= size or start >= end:
            self.set_header("Content-Range", f"bytes */{size}")
            raise Refused(416, "invalid range: failed to overlap")
        return start, end - start, True

    async def do_get(self, _ident):
        path, outside = self.existing()
        if not os.path.isfile(outside):
            raise Refused(400, "path must be a file: " + path)
        size = os.path.getsize(outside)
        start, length, part = self.span(size)
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Length", str(length))
        if part:
            self.set_status(206)
            self.set_header("Content-Range", f"bytes {start}-{start + length - 1}/{size}")
        try:
            if self.state.take("cut", "download"):
                await self.send(outside, start, length // 2)
                self.request.connection.stream.close()
                return
            await self.send(outside, start, length)
            self.finish()
        except tornado.iostream.StreamClosedError:
            pass  # nobody reads it any more


class BulkDownload(FileCall):
    kinds = {"post": "bulk_download"}

    async def do_post(self, _ident):
        paths = self.json().get("paths")
        if not isinstance(paths, list) or not 1 <= len(paths) <= BULK or not all(isinstance(p, str) for p in paths):
            raise Refused(400, "request body must be {\"paths\": [ ... ]} and non-empty")
        boundary = uuid.uuid4().hex
        self.set_header("Content-Type", "multipart/form-data; boundary=" + boundary)
        for given in paths:
            def head(field, media, given=given):
                quoted = given.replace("\\", "\\\\").replace('"', '\\"')
                # the client reads a plain name as Latin-1
                more = "" if given.isascii() else "; filename*=UTF-8''" + urllib.parse.quote(given, safe="")
                return (f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{quoted}"{more}\r\n'
                        f"Content-Type: {media}\r\n")

            try:
                path, outside = self.existing(given)
                if not os.path.isfile(outside):
                    raise Refused(400, "path must be a file: " + path, "INVALID_FILE_PATH")
            except Refused as refused:
                body = json.dumps({"statusCode": refused.status, "message": refused.message, "code": refused.code or ""})
                self.write(head("error", "application/json") + f"\r\n{body}\r\n")
                continue
            size = os.path.getsize(outside)
            self.write(head("file", "application/octet-stream") + f"Content-Length: {size}\r\n\r\n")
            await self.send(outside, 0, size)
            self.write("\r\n")
        self.finish(f"--{boundary}--\r\n")


class Info(FileCall):
    kinds = {"get": "info"}

    async def do_get(self, _ident):
        path, outside = self.existing()
        self.say(described(outside, os.path.basename(path)))


class Files(FileCall):
    kinds = {"get": "list_files", "delete": "delete_file"}

    async def do_get(self, _ident):
        path, outside = self.existing(self.query("path") or HOME)
        depth = self.query("depth", "1") if self.state.switches["depth"] else "1"
        if not depth.isdigit() or not 1 <= int(depth) <= 1000:
            raise Refused(400, "depth must be a positive integer")
        if not os.path.isdir(outside):
            raise Refused(400, "not a directory: " + path)
        found = []
        self.below(outside, path, int(depth), found, self.query("depth") is not None)
        self.say(found)

    def below(self, outside, path, depth, found, whole):
        for name in sorted(os.listdir(outside)):
            here, there = os.path.join(outside, name), os.path.join(path, name)
            if len(found) >= LISTED:
                return
            try:
                real = self.box.outside(there)
            except OSError:
                continue
            if real is None or not os.path.exists(real):
                continue  # a link that leads nowhere is not told
            found.append(described(real, name, there if whole else None))
            if depth > 1 and os.path.isdir(here) and not os.path.islink(here):
                self.below(here, there, depth - 1, found, whole)

    async def do_delete(self, _ident):
        self.existing()  # what a link leads to must be there, and decides
        path, outside = self.inside(follow=False)
        if os.path.isdir(self.inside()[1]) and self.query("recursive") != "true":
            raise Refused(400, "cannot delete directory without recursive flag: " + path)
        if os.path.isdir(outside) and not os.path.islink(outside):
            shutil.rmtree(outside)
        else:
            os.unlink(outside)
        self.say(None, 204)


class Move(FileCall):
    kinds = {"post": "move"}

    async def do_post(self, _ident):
        _, source = self.existing(self.query("source") or "", follow=False)
        path, target = self.inside("destination", follow=False)
        try:
            os.rename(source, target)
        except OSError as error:
            raise Refused(400, f"{error.strerror}: {path}") from None
        self.say(b"")


class Permissions(FileCall):
    kinds = {"post": "permissions"}

    async def do_post(self, _ident):
        path, outside = self.existing()
        try:
            os.chmod(outside, int(self.query("mode", "644"), 8))
        except ValueError:
            raise Refused(400, "invalid mode: " + path) from None
        self.say(b"")


ROUTES = [(r"/files/folder", Folder), (r"/files/bulk-upload", BulkUpload), (r"/files/upload-v2", UploadV2),
          (r"/files/upload", Upload), (r"/files/download", Download), (r"/files/bulk-download", BulkDownload),
          (r"/files/info", Info), (r"/files/?", Files), (r"/files/move", Move), (r"/files/permissions", Permissions)]
