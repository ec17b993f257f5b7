"""Ordinary work, which has to go on in a sandbox as it did before: each piece asserts what it needs."""
import io
import zipfile

WHEEL = "sent_wheel-1.0-py3-none-any.whl"


def wheel():
    """The smallest one that pip installs."""
    made, info = io.BytesIO(), "sent_wheel-1.0.dist-info/"
    with zipfile.ZipFile(made, "w") as z:
        z.writestr("sent_wheel.py", "answer = 43")
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: sent-wheel\nVersion: 1.0\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "sent_wheel.py,,\n")
    return made.getvalue()


WORK = {
    "numpy": "import numpy as np\nassert np.linalg.inv(np.eye(200)).sum() == 200",
    "pandas": "import pandas as pd\npd.DataFrame({'a': range(1000)}).to_csv('t.csv'); assert len(pd.read_csv('t.csv')) == 1000",
    "matplotlib": "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.savefig('p.png'); import os; assert os.path.getsize('p.png') > 1000",
    "multiprocessing": "import multiprocessing as mp\nwith mp.Pool(3) as pool: assert pool.map(abs, range(-50, 0)) == list(range(50, 0, -1))",
    "multiprocessing, spawned": "import multiprocessing as mp, math\nwith mp.get_context('forkserver').Pool(2) as pool: assert pool.map(math.sqrt, [4, 9]) == [2, 3]",
    "process pool": "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as e: assert sum(e.map(abs, range(10))) == 45",
    "shared memory": "from multiprocessing import shared_memory\nm = shared_memory.SharedMemory(create=True, size=1 << 20); m.buf[:2] = b'hi'; m.close(); m.unlink()",
    "managers": "import multiprocessing as mp\nwith mp.Manager() as m:\n    d = m.dict(); p = mp.Process(target=d.update, args=({1: 2},)); p.start(); p.join(); assert dict(d) == {1: 2}",
    "threads": "import threading\nn = []\nts = [threading.Thread(target=n.append, args=(i,)) for i in range(30)]\n[t.start() for t in ts]; [t.join() for t in ts]; assert len(n) == 30",
    "asyncio": "import asyncio, sys\nasync def f():\n    p = await asyncio.create_subprocess_exec(sys.executable, '-c', 'print(6*7)', stdout=asyncio.subprocess.PIPE)\n    return (await p.communicate())[0]\nassert await f() == b'42\\n'",
    "subprocess": "import subprocess\nassert subprocess.run('echo $((6*7)) | tr 4 4', shell=True, capture_output=True, text=True, check=True).stdout == '42\\n'",
    "shell magic": "x = !ls -d .\nassert x == ['.'], x",
    "sqlite": "import sqlite3\nc = sqlite3.connect('w.db'); c.execute('pragma journal_mode=wal'); c.execute('create table if not exists t(a)'); c.execute('insert into t values (1)'); c.commit(); assert c.execute('select count(*) from t').fetchone()[0] >= 1",
    "large file": "with open('big', 'wb') as f:\n    for i in range(40): f.write(bytes(1 << 20))\nimport os, mmap\nwith open('big', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[-1] = 7\nassert os.path.getsize('big') == 40 << 20; os.unlink('big')",
    "temporary files": "import tempfile, os\nwith tempfile.NamedTemporaryFile() as f: f.write(b'x' * 1000); f.flush(); assert os.path.getsize(f.name) == 1000",
    "own sockets": "import socket, threading\ns = socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen()\nt = threading.Thread(target=lambda: s.accept()[0].sendall(b'hi')); t.start()\nc = socket.socket(socket.AF_UNIX); c.connect('own.sock'); assert c.recv(2) == b'hi'; t.join(); import os; os.unlink('own.sock')",
    "names and places": "import os, getpass, locale, socket, time\nassert os.path.expanduser('~') == os.environ['HOME'] and os.access(os.environ['HOME'], os.W_OK); getpass.getuser(); socket.gethostname(); time.tzset(); assert 'é'.encode() == open('/dev/null', 'rb').read() + b'\\xc3\\xa9'",
    "random numbers": "import secrets, uuid, ssl\nassert len({uuid.uuid4() for _ in range(100)}) == 100 and len(secrets.token_bytes(32)) == 32; ssl.create_default_context()",
    "signals": "import signal, time\nhit = []\nsignal.signal(signal.SIGALRM, lambda *a: hit.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(0.2); assert hit",
    "links and locks": "import os, fcntl\nopen('a1', 'w').write('1'); os.link('a1', 'a2'); os.symlink('a1', 'a3'); os.rename('a2', 'a4'); assert open('a3').read() == '1'\nwith open('a1', 'w') as f: fcntl.flock(f, fcntl.LOCK_EX)\n[os.unlink(x) for x in ('a1', 'a3', 'a4')]",
    "matplotlib, fonts and formats": "import matplotlib, matplotlib.font_manager as fm, matplotlib.pyplot as plt, os, io\nassert fm.findfont('DejaVu Sans').endswith('.ttf') and os.path.isdir(matplotlib.get_cachedir()) and os.listdir(matplotlib.get_cachedir())\nplt.figure(); plt.title('é π'); plt.imshow([[1, 2]]); [plt.savefig(io.BytesIO(), format=f) for f in ('png', 'svg', 'pdf')]; plt.close('all')",
    "multiprocessing, queues and locks": "import multiprocessing as mp\nq, l, b = mp.Queue(), mp.Lock(), mp.Semaphore(2)\ndef f(i):\n    with l, b: q.put(i)\nps = [mp.Process(target=f, args=(i,)) for i in range(4)]; [p.start() for p in ps]; assert sorted(q.get(timeout=20) for _ in ps) == [0, 1, 2, 3]; [p.join() for p in ps]; assert all(p.exitcode == 0 for p in ps)",
    "multiprocessing, shared memory in a child": "import multiprocessing as mp, numpy as np\nfrom multiprocessing import shared_memory\nm = shared_memory.SharedMemory(create=True, size=8000); a = np.ndarray((1000,), buffer=m.buf); a[:] = 0\ndef f(name):\n    n = shared_memory.SharedMemory(name=name); np.ndarray((1000,), buffer=n.buf)[:] += 1; n.close()\np = mp.Process(target=f, args=(m.name,)); p.start(); p.join(); assert p.exitcode == 0 and a.sum() == 1000; del a; m.close(); m.unlink()",
    "multiprocessing, by spawn": "import multiprocessing as mp, math\nwith mp.get_context('spawn').Pool(2) as pool: assert pool.map(math.sqrt, [4, 9]) == [2, 3]",
    "asyncio, shells and unix servers": "import asyncio\nasync def echo(r, w): w.write(await r.readline()); await w.drain(); w.close()\nasync def f():\n    p = await asyncio.create_subprocess_shell('read x; echo $x; exit 3', stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)\n    out, _ = await p.communicate(b'hi\\n'); assert (out, p.returncode) == (b'hi\\n', 3)\n    s = await asyncio.start_unix_server(echo, 'a.sock'); r, w = await asyncio.open_unix_connection('a.sock'); w.write(b'ping\\n'); assert await r.readline() == b'ping\\n'; w.close(); s.close()\n    assert await asyncio.to_thread(sum, [1, 2]) == 3\nawait f(); import os; os.unlink('a.sock')",
    "subprocess, pipes and signals": "import subprocess, signal, time\np = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE); assert p.communicate(b'x' * 300000)[0] == b'x' * 300000\np = subprocess.Popen(['sleep', '60'], start_new_session=True); p.terminate(); assert p.wait(5) == -signal.SIGTERM\nwith subprocess.Popen('yes', stdout=subprocess.PIPE) as y: assert subprocess.run(['head', '-2'], stdin=y.stdout, capture_output=True).stdout == b'y\\ny\\n'; y.kill()\nassert subprocess.run(['python3', '-c', 'import signal; print(signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN, not signal.pthread_sigmask(0, []))'], capture_output=True, text=True).stdout == 'True True\\n'",
    "pseudo terminals": "import pty, os\npid, fd = pty.fork()\nif pid == 0: os.execvp('stty', ['stty', 'size'])\nout = b''\ntry:\n    while c := os.read(fd, 99): out += c\nexcept OSError: pass\nassert out == b'0 0\\r\\n', out; assert os.waitpid(pid, 0)[1] == 0; os.close(fd)",
    "bash and other magics": "ip = get_ipython()\nip.run_cell_magic('bash', '--out said', 'set -e; for i in 1 2; do echo $((i * 21)); done | tail -1'); assert said == '42\\n', said\nip.run_cell_magic('writefile', 'magic.py', 'print(6 * 7)'); x = !python3 magic.py\nassert x == ['42']; import os; at = os.getcwd(); ip.run_line_magic('cd', '-q ..'); ip.run_line_magic('cd', '-q ' + at); assert os.getcwd() == at; ip.run_line_magic('timeit', '-n1 -r1 pass')",
    "sqlite, several processes": "import sqlite3, subprocess, sys\nc = sqlite3.connect('v.db', timeout=20); c.execute('pragma journal_mode=wal'); c.execute('pragma mmap_size=1000000'); c.execute('create table t(a)'); c.commit()\nps = [subprocess.Popen([sys.executable, '-c', 'import sqlite3; c = sqlite3.connect(\"v.db\", timeout=20)\\nfor i in range(50):\\n with c: c.execute(\"insert into t values (1)\")']) for _ in range(3)]\nassert [p.wait() for p in ps] == [0, 0, 0] and c.execute('select sum(a) from t').fetchone() == (150,); c.close()",
    "archives": "import shutil, tarfile, zipfile, os\nos.makedirs('pack/sub', exist_ok=True); open('pack/sub/f', 'w').write('x' * 999); os.chmod('pack/sub/f', 0o750); os.symlink('f', 'pack/sub/l')\nfor kind in ('zip', 'tar', 'gztar', 'bztar', 'xztar'): n = shutil.make_archive('packed', kind, 'pack'); shutil.unpack_archive(n, 'un-' + kind); assert open('un-' + kind + '/sub/f').read() == 'x' * 999\nassert os.stat('un-tar/sub/f').st_mode & 0o777 == 0o750 and os.readlink('un-tar/sub/l') == 'f'; x = !tar cf - pack | tar tf - | wc -l\nassert x == ['4'], x",
    "foreign functions": "import ctypes, faulthandler\nat = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)); a = (ctypes.c_int * 3)(3, 1, 2)\nctypes.CDLL(None).qsort(a, 3, 4, at(lambda x, y: x[0] - y[0])); assert list(a) == [1, 2, 3]\nwith open('trace', 'w+') as f: faulthandler.enable(f); faulthandler.dump_traceback(f); f.seek(0); assert 'most recent call first' in f.read(); faulthandler.disable()",
    "a crash of a child": "import subprocess, sys, signal\np = subprocess.run([sys.executable, '-X', 'faulthandler', '-c', 'import ctypes; ctypes.string_at(0)'], capture_output=True, text=True); assert p.returncode == -signal.SIGSEGV and 'Segmentation fault' in p.stderr, p",
    "signal handlers": "import signal, os, threading, time\nhit = []\nold = signal.signal(signal.SIGUSR1, lambda s, f: hit.append(s)); os.kill(os.getpid(), signal.SIGUSR1); signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1); time.sleep(0.05); assert hit == [signal.SIGUSR1] * 2; signal.signal(signal.SIGUSR1, old)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR2); assert signal.sigtimedwait([signal.SIGUSR2], 2).si_signo == signal.SIGUSR2; signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])",
    "time zones and locales": "import datetime, locale, os, time, zoneinfo\nassert locale.setlocale(locale.LC_ALL, 'C.UTF-8') and locale.getpreferredencoding() == 'UTF-8' and os.fsencode('é') == b'\\xc3\\xa9'; assert 'Europe/Berlin' in zoneinfo.available_timezones()\nassert datetime.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset() == datetime.timedelta(hours=2)\nos.environ['TZ'] = 'Asia/Tokyo'; time.tzset(); assert time.tzname[0] == 'JST'; del os.environ['TZ']; time.tzset()\nimport pandas as pd; assert pd.Timestamp('2024-01-01', tz='UTC').tz_convert('America/New_York').hour == 19",
    "names of users": "import getpass, grp, os, pwd\nme = pwd.getpwuid(os.getuid()); assert me.pw_dir == os.path.expanduser('~' + me.pw_name) and getpass.getuser() == me.pw_name and grp.getgrgid(os.getgid()).gr_name\nx = !whoami\nassert x == [me.pw_name]",
    "login name": "import os; assert os.getlogin()",
    "no prompts": "from IPython.core.error import StdinNotImplementedError\ntry: input('? '); assert False\nexcept StdinNotImplementedError: pass",
    "servers on the loopback": "import http.server, threading, urllib.request, socket\ns = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler); s.RequestHandlerClass.log_message = lambda *a: None; threading.Thread(target=s.serve_forever, daemon=True).start(); open('served', 'w').write('yes')\nassert urllib.request.urlopen(f'http://localhost:{s.server_address[1]}/served', timeout=5).read() == b'yes'; s.shutdown(); s.server_close()\na = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0)); a.sendto(b'x', a.getsockname()); assert a.recv(9) == b'x'",
    "watching files": "import ctypes, os, struct\nl = ctypes.CDLL(None, use_errno=True); os.makedirs('watched', exist_ok=True); fd = l.inotify_init1(0); assert fd >= 0 and l.inotify_add_watch(fd, b'watched', 0x100) >= 0; open('watched/new', 'w').close(); assert struct.unpack('iIII', os.read(fd, 4096)[:16])[1] & 0x100; os.close(fd)",
    "mapped memory": "import mmap, os\nm = mmap.mmap(-1, 1 << 20)\nif os.fork() == 0: m[:2] = b'ok'; os._exit(0)\nos.wait(); assert m[:2] == b'ok'\nwith open('/dev/shm/' + str(os.getpid()), 'w+b') as f: f.truncate(1 << 20); n = mmap.mmap(f.fileno(), 0); n[-1] = 9; n.flush(); os.unlink(f.name)\nopen('short', 'wb').write(b'abc')\nwith open('short', 'r+b') as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY) as c: c[0] = 0; assert open('short', 'rb').read() == b'abc'",
    "descriptors of all kinds": "import os, select, socket, array\ne = select.epoll(); r, w = os.pipe(); e.register(r, select.EPOLLIN); os.write(w, b'x'); assert e.poll(1); f = os.eventfd(1); assert os.eventfd_read(f) == 1; m = os.memfd_create('x'); os.write(m, b'hello'); p = os.pidfd_open(os.getpid())\na, b = socket.socketpair(); socket.send_fds(a, [b'!'], [m]); _, got, _, _ = socket.recv_fds(b, 9, 1); assert os.pread(got[0], 9, 0) == b'hello'; assert os.sendfile(a.fileno(), m, 0, 5) == 5\n[os.close(x) for x in (r, w, f, m, p, *got)]",
    "files of all kinds": "import os, stat, shutil\nfd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600); os.posix_fallocate(fd, 0, 4096); os.write(fd, b'abc'); os.fsync(fd); d = os.open('.', os.O_PATH); os.link(f'/proc/self/fd/{fd}', 'named', dst_dir_fd=d, follow_symlinks=True); os.close(fd); os.close(d); assert open('named', 'rb').read()[:3] == b'abc'\nos.mkfifo('pipe'); assert stat.S_ISFIFO(os.stat('pipe').st_mode); os.unlink('pipe'); os.chmod('named', 0o400); os.utime('named', (1, 2)); assert os.stat('named').st_mtime == 2; os.rename('named', 'named2'); os.unlink('named2'); assert shutil.disk_usage('.').total > 0\nopen('run.sh', 'w').write('#!/bin/sh\\necho $0'); os.chmod('run.sh', 0o755); x = !./run.sh\nassert x == ['./run.sh'], x",
    "many threads and libraries": "import os, numpy as np\nfrom concurrent.futures import ThreadPoolExecutor\na = np.random.rand(300, 300)\nwith ThreadPoolExecutor(2) as e: assert len(list(e.map(lambda i: float((a @ a).sum()), range(32)))) == 32\nassert os.cpu_count() >= 1 and len(os.sched_getaffinity(0)) >= 1; import platform, resource, sysconfig; assert platform.system() == 'Linux' and resource.getrusage(0).ru_maxrss",
    "a wheel that was uploaded": "%pip install -q --no-index --find-links . sent-wheel\nimport importlib, site, sys\nsys.path[:0] = [site.getusersitepackages()] if site.getusersitepackages() not in sys.path else []\nimportlib.invalidate_caches(); import sent_wheel; assert sent_wheel.answer == 43",
    "a virtual environment": "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'venv', '--without-pip', 'env'], check=True, capture_output=True); x = !env/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'\nassert x == ['True'], x",
    "usual programs": "x = !ulimit -c 0 && ps -o comm= -p $$ && df . | wc -l && free | wc -l && nproc && uname -s && date +%Z && id -u && head -c 3 /dev/zero | sha256sum | cut -c1-4 && find / -maxdepth 1 | wc -l && hostname\nassert len(x) >= 9, x",
    "pip install": """import zipfile, base64, hashlib
record = ''
with zipfile.ZipFile('tiny_wheel-1.0-py3-none-any.whl', 'w') as z:
    for name, text in (('tiny_wheel.py', 'answer = 42'), ('tiny_wheel-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny-wheel\\nVersion: 1.0\\n'), ('tiny_wheel-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')):
        z.writestr(name, text); record += name + ',,\\n'
    z.writestr('tiny_wheel-1.0.dist-info/RECORD', record + 'tiny_wheel-1.0.dist-info/RECORD,,\\n')
%pip install -q --no-index --find-links . tiny-wheel
import importlib, site, sys
sys.path[:0] = [site.getusersitepackages()] if site.getusersitepackages() not in sys.path else []
importlib.invalidate_caches(); import tiny_wheel; assert tiny_wheel.answer == 42""",
}

# what a tier cannot give, with the reason
MISSING = {
    **{("none", pip): "Debian's pip refuses to install where apt does, and tier none has no configuration of its own"
       for pip in ("pip install", "a wheel that was uploaded")},
    ("none", "login name"): "nobody has logged in",
    **{("container", names): "the container's list of users does not know the session's" for names in ("names of users", "login name")},
    ("container", "servers on the loopback"): "no network namespace: with egress none there are no internet sockets",
}
