# The kernel's half of SANDBOX_TRANSFER=kernel: a request's text, evaluated beside the session's
# names and never among them, so that shadowing print, open, os or base64 there does no harm.
#
# agent.c puts ARGS before it: (nonce, operation, arguments…). RESULT is a string: the nonce, "ok"
# and the operation's words, or the nonce, "no", a problem's code and what to say. Nothing stays
# between two requests but the module object _husk, which knows where the session's folder is. What
# travels is checked at the other end, too; code that means harm in its own interpreter can still
# lie, for it is the one that is asked.
import atexit
import binascii
import errno
import hashlib
import posix
import shutil
import stat
import sys
import tempfile

STEP = 1 << 18
ENTRIES_MAX = 200000
MODULE = "_husk"


class Refused(Exception):
    pass


def home():
    module = sys.modules.get(MODULE)
    if module is None:
        raise Refused("workspace_gone", "the kernel no longer knows its folder")
    for folder in (module.base, module.base + b"/files", module.base + b"/incoming"):
        try:
            posix.mkdir(folder, 0o700)
        except FileExistsError:
            pass
    return module.base


def bind(name):
    base = tempfile.gettempdirb() + b"/husk-" + name
    posix.mkdir(base, 0o700)
    owner = posix.getpid()
    module = type(sys)(MODULE)
    module.base = base
    sys.modules[MODULE] = module

    def leave():  # not in what was forked
        if posix.getpid() == owner:
            shutil.rmtree(base, True)

    atexit.register(leave)
    posix.chdir(home() + b"/files")


def resolved(path, flags):
    """A descriptor of what the path leads to, if that is inside."""
    root = home() + b"/files"
    root_fd = posix.open(root, posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC)
    try:
        inside = posix.readlink(b"/proc/self/fd/%d" % root_fd)
        fd = posix.open(root + b"/" + path, flags | posix.O_CLOEXEC | posix.O_NOCTTY)
    finally:
        posix.close(root_fd)
    real = posix.readlink(b"/proc/self/fd/%d" % fd)
    if real != inside and not real.startswith(inside + b"/"):
        posix.close(fd)
        raise Refused("outside_workspace", "the path leads out of the workspace")
    return fd


def split(path):
    folder, slash, name = path.rpartition(b"/")
    return folder, name


def looked_at(path):
    """lstat of what is inside."""
    folder, name = split(path)
    fd = resolved(folder, posix.O_PATH | posix.O_DIRECTORY)
    try:
        return posix.stat(name, dir_fd=fd, follow_symlinks=False)
    finally:
        posix.close(fd)


def kind(st):
    for letter, test in (("f", stat.S_ISREG), ("d", stat.S_ISDIR), ("l", stat.S_ISLNK)):
        if test(st.st_mode):
            return letter
    return "o"


def words(st):
    return f"{kind(st)} {st.st_ino} {st.st_size} {st.st_mtime_ns} {st.st_ctime_ns}"


def open_regular(path):
    try:
        fd = resolved(path, posix.O_RDONLY | posix.O_NONBLOCK)
    except OSError as e:
        if e.errno in (errno.ENXIO, errno.EISDIR):
            raise Refused("not_a_file", "this is no regular file") from None
        raise
    st = posix.fstat(fd)
    if not stat.S_ISREG(st.st_mode):
        posix.close(fd)
        raise Refused("not_a_file", "this is no regular file")
    return fd, st


def digest(fd):
    total, at = hashlib.sha256(), 0
    while True:
        piece = posix.pread(fd, STEP, at)
        if not piece:
            return total.hexdigest(), at
        total.update(piece)
        at += len(piece)


def get(path, maximum):
    """What it is and its digest; the bytes are asked for by read()."""
    fd, st = open_regular(path)
    try:
        if st.st_size > maximum:
            raise Refused("file_too_large", f"the file has {st.st_size} bytes, the maximum is {maximum}")
        return words(st) + " " + digest(fd)[0]
    finally:
        posix.close(fd)


def read(path, at, n):
    fd = open_regular(path)[0]
    try:
        return binascii.b2a_base64(posix.pread(fd, n, at), newline=False).decode()
    finally:
        posix.close(fd)


def incoming(name):
    return home() + b"/incoming/" + name


def begin(name):
    """Takes away what a transfer that was cut left behind: one is under way at a time."""
    folder = home() + b"/incoming/"
    for old in posix.listdir(folder):
        posix.unlink(folder + old)
    posix.close(posix.open(folder + name, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, 0o666))


def write(name, at, text):
    data = binascii.a2b_base64(text)
    fd = posix.open(incoming(name), posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        if posix.fstat(fd).st_size != at:
            raise Refused("transfer_failed", "a part came at the wrong place")
        while data:
            n = posix.pwrite(fd, data, at)
            data, at = data[n:], at + n
    finally:
        posix.close(fd)


def make_folders(path):
    """The folder a file goes to, made where it is missing; no link is followed."""
    fd = posix.open(home() + b"/files", posix.O_PATH | posix.O_DIRECTORY)
    made = []
    at = b""
    try:
        for part in path.split(b"/") if path else ():
            at += part + b"/"
            try:
                posix.mkdir(part, 0o777, dir_fd=fd)
                made.append(at)
            except FileExistsError:
                st = posix.stat(part, dir_fd=fd, follow_symlinks=False)
                if stat.S_ISLNK(st.st_mode):
                    raise Refused("outside_workspace", "a link is in the way")
                if not stat.S_ISDIR(st.st_mode):
                    raise Refused("not_a_folder", "a file is in the way")
            inner = posix.open(part, posix.O_PATH | posix.O_DIRECTORY | posix.O_NOFOLLOW, dir_fd=fd)
            posix.close(fd)
            fd = inner
    except BaseException:
        posix.close(fd)
        unmake(made)
        raise
    return fd, made


def unmake(made):
    for folder in reversed(made):
        try:
            posix.rmdir(home() + b"/files/" + folder)
        except OSError:
            pass


def check_target(fd, name, create, expected):
    """Is there something to replace, and may it be?"""
    try:
        st = posix.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        st = None
    if st is not None and stat.S_ISDIR(st.st_mode):
        raise Refused("not_a_folder", "a folder is in the way")
    if (create and st is not None) or (expected and (st is None or words(st) != expected)):
        raise Refused("precondition_failed", "the file is not in the state the request asks for")
    return st is None


def commit(path, temporary, size, sha256, create, expected):
    temporary = incoming(temporary)
    fd = posix.open(temporary, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        if digest(fd) != (sha256, size):
            raise Refused("transfer_failed", "what arrived is not what was sent")
    finally:
        posix.close(fd)
    folder, name = split(path)
    fd, made = make_folders(folder)
    try:
        created = check_target(fd, name, create, expected)
        posix.replace(temporary, name, dst_dir_fd=fd)
        return f"{int(created)} " + words(posix.stat(name, dir_fd=fd, follow_symlinks=False))
    except BaseException:
        unmake(made)
        raise
    finally:
        posix.close(fd)


def look(path):
    return words(looked_at(path))


def remove(path, recursive):
    folder, name = split(path)
    st = looked_at(path)
    fd = resolved(folder, posix.O_PATH | posix.O_DIRECTORY)
    try:
        if not stat.S_ISDIR(st.st_mode):
            posix.unlink(name, dir_fd=fd)
        elif recursive:
            shutil.rmtree(b"/proc/self/fd/%d/%s" % (fd, name))
        else:
            posix.rmdir(name, dir_fd=fd)
    except OSError as e:
        if e.errno == errno.ENOTEMPTY:
            raise Refused("folder_not_empty", "the folder is not empty; recursive=true removes it") from None
        raise
    finally:
        posix.close(fd)


def walk(folder, recursive):
    waiting, seen = [folder], 0
    while waiting:
        at = waiting.pop()
        try:
            fd = resolved(at, posix.O_RDONLY | posix.O_DIRECTORY)
        except NotADirectoryError:
            raise Refused("not_a_folder", "this is no folder") from None
        except OSError:
            if at == folder:
                raise
            continue
        try:
            for name in posix.listdir(fd):
                name = name.encode(sys.getfilesystemencoding(), "surrogateescape")
                seen += 1
                if seen > ENTRIES_MAX:
                    raise Refused("limit_exceeded", f"over {ENTRIES_MAX} entries were looked at")
                path = at + b"/" + name if at else name
                try:
                    st = posix.stat(name, dir_fd=fd, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if not name.startswith(b".husk-"):
                    yield path, st
                    if recursive and stat.S_ISDIR(st.st_mode):
                        waiting.append(path)
        finally:
            posix.close(fd)


def enlist(name, folder, recursive, after, maximum):
    """Writes the list to a file of its own, which is fetched like any other; its size and digest."""
    begin(name)
    found = sorted(x for x in walk(folder, recursive) if x[0] > after)
    text = "".join(f"{words(st)} {path.hex()}\n" for path, st in found).encode()
    if len(text) > maximum:
        raise Refused("limit_exceeded", f"the list is over {maximum} bytes; list folder by folder")
    at = 0
    fd = posix.open(incoming(name), posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        while at < len(text):
            at += posix.pwrite(fd, text[at : at + STEP], at)
    finally:
        posix.close(fd)
    return f"{len(text)} {hashlib.sha256(text).hexdigest()}"


def read_list(name, at, n):
    fd = posix.open(incoming(name), posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        return binascii.b2a_base64(posix.pread(fd, n, at), newline=False).decode()
    finally:
        posix.close(fd)


PROBLEMS = {
    errno.ENOENT: "file_not_found",
    errno.ENOTDIR: "file_not_found",
    errno.EACCES: "file_unreadable",
    errno.EPERM: "file_unreadable",
    errno.ELOOP: "outside_workspace",
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
}


def answer(nonce, operation, *arguments):
    try:
        result = operation(*arguments)
        return f"{nonce} ok {'' if result is None else result}"
    except Refused as e:
        return f"{nonce} no {e.args[0]} {e.args[1]}"
    except OSError as e:
        return f"{nonce} no {PROBLEMS.get(e.errno, 'transfer_failed')} {e.strerror}"
