"""Ordinary work, which has to go on in a sandbox as it did before: each piece asserts what it needs."""

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
    ("none", "pip install"): "Debian's pip refuses to install where apt does, and tier none has no configuration of its own",
}
