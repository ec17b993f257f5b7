/* SPDX-License-Identifier: MIT */
/* docs/errors.md is the table of model/problem.c: "test_errors_doc --print > docs/errors.md" makes
 * it, and without an argument it is held against the one in the source tree. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "model/problem.h"

#define DOC_MAX (256 * 1024)

static void
write_doc(struct buf *out)
{
    size_t n;
    const struct problem *p = problem_table(&n);
    int status = 0;

    (void)buf_puts(out,
                   "# Errors\n\n"
                   "An error is answered as `application/problem+json` (RFC 9457) with `status`, "
                   "`title`, `detail`, `code`\nand `request_id`. The `code` is stable: programs go "
                   "by it, `detail` is for people. A 4xx or 5xx answer to an\nexecution means that "
                   "nothing ran, but for `worker_lost`, `gateway_timeout` and `duplicate_request`: "
                   "then look it up\nwith `GET /v1/executions?request_id=…`. This page is made "
                   "from `src/model/problem.c`.\n");
    for (size_t i = 0; i < n; i++) {
        if (p[i].status != status)
            (void)buf_printf(out,
                             "\n## %d\n\n| code | title | when, and what to do |\n|---|---|---|\n",
                             p[i].status);
        status = p[i].status;
        (void)buf_printf(out, "| `%s` | %s | %s |\n", p[i].slug, p[i].title, p[i].help);
    }
}

int
main(int argc, char **argv)
{
    _cleanup_buf_ struct buf want = BUF_INIT(DOC_MAX), have = BUF_INIT(DOC_MAX);
    struct err err = ERR_INIT;

    write_doc(&want);
    if (argc > 1 && strcmp(argv[1], "--print") == 0)
        return fputs(buf_str(&want), stdout) < 0;
    if (fd_read_file(TOP_SRCDIR "/docs/errors.md", &have, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    if (want.len != have.len || memcmp(want.data, have.data, have.len) != 0) {
        (void)fprintf(stderr, "docs/errors.md is not what model/problem.c says; make it anew\n");
        return 1;
    }
    return 0;
}
