"""A certificate authority for a test, made with openssl."""
import os
import subprocess


class Authority:
    """Makes certificates in a directory of its own; every method gives the path without its ending."""

    def __init__(self, directory, name):
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self.base = os.path.join(directory, name)
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                      "-subj", f"/CN={name}", "-keyout", self.base + ".key", "-out", self.base + ".pem")

    @property
    def certificate(self):
        return self.base + ".pem"

    def issue(self, name, subject, extensions=""):
        """A certificate NAME.pem and its key NAME.key."""
        base = os.path.join(self.directory, name)
        with open(base + ".ext", "w") as f:
            f.write("basicConstraints=critical,CA:FALSE\n" + extensions)
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
                      "-keyout", base + ".key", "-out", base + ".csr")
        self._openssl("x509", "-req", "-in", base + ".csr", "-CA", self.certificate, "-CAkey", self.base + ".key",
                      "-CAcreateserial", "-days", "2", "-extfile", base + ".ext", "-out", base + ".pem")
        return base

    @staticmethod
    def _openssl(*args):
        subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
