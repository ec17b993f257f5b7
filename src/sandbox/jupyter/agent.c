/* SPDX-License-Identifier: MIT */
#include "sandbox/jupyter/agent.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "sandbox/jupyter/silent.h"
#include "sandbox/jupyter/transfer_py.h"

#define NONCE_BYTES 16
#define ANSWER_MAX (KMSG_STRING_MAX + 16)

/* Only literals, lambdas and attributes: no name of the session's is looked up. The builtins are
 * those of the import system, which nobody shadows by accident. */
#define BEFORE "(lambda b:(lambda n:(b['exec']("
#define BETWEEN ",n),n['answer']("
#define BEHIND                                                                                     \
    "))[1])({'__builtins__':b,'__name__':'_husk'}))([c for c in ().__class__.__base__"             \
    ".__subclasses__()if c.__name__=='BuiltinImporter'][0].find_spec.__globals__['__builtins__'])"

/* What the agent may refuse with. */
static const struct {
    const char *slug;
    enum err_code code;
} refusals[] = {
    {"file_not_found", ERR_NOT_FOUND},     {"workspace_gone", ERR_NOT_FOUND},
    {"not_a_file", ERR_INVALID},           {"outside_workspace", ERR_INVALID},
    {"file_unreadable", ERR_DENIED},       {"not_a_folder", ERR_CONFLICT},
    {"folder_not_empty", ERR_CONFLICT},    {"file_busy", ERR_CONFLICT},
    {"precondition_failed", ERR_CONFLICT}, {"file_too_large", ERR_LIMIT},
    {"limit_exceeded", ERR_LIMIT},         {"disk_full", ERR_LIMIT},
};

void
agent_bytes(struct buf *out, const char *p, size_t n)
{
    (void)buf_puts(out, "b'");
    for (size_t i = 0; i < n; i++)
        (void)buf_printf(out, "\\x%02x", (unsigned char)p[i]);
    (void)buf_puts(out, "'");
}

void
agent_arg_bytes(struct buf *out, const char *p, size_t n)
{
    agent_bytes(out, p, n);
    (void)buf_puts(out, ",");
}

void
agent_arg_word(struct buf *out, const char *s)
{
    if (s == NULL) {
        (void)buf_puts(out, "None,");
        return;
    }
    (void)buf_puts(out, "'");
    (void)buf_puts(out, s);
    (void)buf_puts(out, "',");
}

void
agent_arg_i64(struct buf *out, int64_t v)
{
    (void)buf_printf(out, "%" PRId64 ",", v);
}

void
agent_arg_bool(struct buf *out, bool v)
{
    (void)buf_puts(out, v ? "True," : "False,");
}

static int
refused(const char *p, size_t n, struct err *err)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        size_t k = strlen(refusals[i].slug);

        if (n > k && memcmp(p, refusals[i].slug, k) == 0 && p[k] == ' ')
            return err_slug(err, refusals[i].code, refusals[i].slug, "%.*s", (int)(n - k - 1),
                            p + k + 1);
    }
    return err_slug(err, ERR_UNAVAILABLE, "transfer_failed", "the kernel says: %.*s", (int)n, p);
}

/* 'NONCE ok words' or 'NONCE no slug detail', as a repr. */
static int
read_answer(const struct buf *text, const char *nonce, struct buf *ret, struct err *err)
{
    const char *p = buf_str(text);
    size_t n = text->len, k = strlen(nonce);

    if (n < k + 6 || (p[0] != '\'' && p[0] != '"') || p[n - 1] != p[0] ||
        memcmp(p + 1, nonce, k) != 0)
        return err_slug(err, ERR_UNAVAILABLE, "transfer_failed",
                        "the kernel's answer is not to what was asked");
    p += k + 1;
    n -= k + 2;
    if (memcmp(p, " no ", 4) == 0)
        return refused(p + 4, n - 4, err);
    if (memcmp(p, " ok ", 4) != 0)
        return err_slug(err, ERR_UNAVAILABLE, "transfer_failed", "the kernel's answer is none");
    buf_clear(ret);
    if (buf_append(ret, p + 4, n - 4) < 0)
        return err_set(err, ERR_NOMEM, "no memory for an answer of the kernel");
    return 0;
}

int
agent_call(struct jupyter *j, struct channel *c, const char *operation, const struct buf *args,
           struct buf *ret, struct deadline d, struct err *err)
{
    _cleanup_buf_ struct buf expression = BUF_INIT(AGENT_ARGS_MAX + sizeof TRANSFER_PY + 1024);
    _cleanup_buf_ struct buf text = BUF_INIT(ANSWER_MAX);
    char nonce[2 * NONCE_BYTES + 1];
    struct err why = ERR_INIT;

    id_random_hex(nonce, NONCE_BYTES);
    (void)buf_puts(&expression, BEFORE);
    (void)buf_append(&expression, TRANSFER_PY, sizeof TRANSFER_PY - 1);
    (void)buf_printf(&expression, BETWEEN "'%s',n['%s'],", nonce, operation);
    (void)buf_append(&expression, buf_str(args), args->len);
    (void)buf_puts(&expression, BEHIND);
    if (buf_check(args, "a part of a transfer", err) < 0 ||
        buf_check(&expression, "a part of a transfer", err) < 0)
        return -1;
    if (jupyter_evaluate(j, c, &expression, &text, d, &why) == 0)
        return read_answer(&text, nonce, ret, err);
    if (why.code == ERR_INTERNAL)
        return err_slug(err, ERR_UNAVAILABLE, "transfer_failed", "%s", why.msg);
    if (err != NULL)
        *err = why;
    return -1;
}

int
agent_bind(struct jupyter *j, struct channel *c, struct deadline d, struct err *err)
{
    _cleanup_buf_ struct buf args = BUF_INIT(4 * HANDLE_MAX + 16);
    _cleanup_buf_ struct buf words = BUF_INIT(ANSWER_MAX);

    agent_arg_bytes(&args, c->handle, strlen(c->handle));
    return agent_call(j, c, "bind", &args, &words, d, err);
}
