/* SPDX-License-Identifier: MIT */
#include "sandbox/daytona/runner.h"

#include <stdio.h>
#include <string.h>

#include "json/writer.h"
#include "sandbox/daytona/runner_py.h"

#define MODULE "_husk"
#define MARK '\x1e'
#define MESSAGE_MAX                                                                                \
    (32u * 1024 * 1024) /* bytes of a message that is read; of more only the size is */
#define DEPTH_MAX 64

static const char boot_head[] =
    "__import__('sys').modules['" MODULE "']=(lambda m:(m.__dict__.update(__file__='<husk>'),"
    "exec(compile(";
static const char boot_tail[] =
    ",'<husk>','exec'),m.__dict__),m)[2])(type(__import__('sys'))('" MODULE "'))\n"
    "print(__import__('os').getpid())\n";

void
runner_boot(struct buf *out)
{
    (void)buf_puts(out, boot_head);
    (void)buf_puts(out, RUNNER_PY);
    (void)buf_puts(out, boot_tail);
}

void
runner_call(struct buf *out, const char *nonce, const char *code, size_t n)
{
    struct json_writer w;

    /* What JSON writes for a string reads the same in Python. */
    (void)buf_printf(out, "__import__('sys').modules['" MODULE "'].run('%s',*", nonce);
    jw_init(&w, out);
    jw_array(&w, NULL);
    jw_string_n(&w, NULL, code, n);
    jw_end_array(&w);
    (void)buf_puts(out, ",globals())");
}

bool
runner_missing(json_val error)
{
    const char *name = json_cstring(json_member(error, "name"));
    const char *value = json_cstring(json_member(error, "value"));

    return name != NULL && value != NULL && strcmp(name, "KeyError") == 0 &&
           strcmp(value, "'" MODULE "'") == 0;
}

void
runner_reader_init(struct runner_reader *r, const char *nonce)
{
    r->mark[0] = '\0';
    if (nonce != NULL)
        (void)snprintf(r->mark, sizeof r->mark, "%c%s", MARK, nonce);
    buf_init(&r->message, MESSAGE_MAX);
    r->over = 0;
    r->count = -1;
}

void
runner_reader_done(struct runner_reader *r)
{
    buf_done(&r->message);
}

static void
take_whole(struct runner_reader *r, struct output *out, char kind, json_val content)
{
    struct rich_source src = {.kind = kind == 'r'   ? RICH_RESULT
                                      : kind == 'u' ? RICH_UPDATE
                                                    : RICH_DISPLAY,
                              .content = content,
                              .size = r->message.len};
    struct failure f;

    switch (kind) {
    case 'n':
        (void)json_i64(json_member(content, "execution_count"), 0, INT64_MAX, &r->count);
        break;
    case 'e':
        failure_read(&f, content);
        output_error(out, &f);
        break;
    case 'd':
    case 'u':
    case 'r':
        output_rich(out, &src);
        break;
    default:
        break;
    }
}

static void
take_message(struct runner_reader *r, struct output *out, char kind, const char *p, size_t n)
{
    struct json_doc *doc = NULL;

    if (r->over > 0 || buf_append(&r->message, p, n) < 0)
        r->over += n;
    if (kind == '+')
        return;
    if (r->over > 0) {
        output_lost_rich(out, r->over + r->message.len);
    } else if (json_parse(buf_str(&r->message), r->message.len, DEPTH_MAX, JSON_LAX, &doc, NULL) ==
               0) {
        take_whole(r, out, kind, json_root(doc));
        json_free(doc);
    }
    buf_clear(&r->message);
    r->over = 0;
}

void
runner_text(struct runner_reader *r, struct output *out, const char *p, size_t n)
{
    size_t mark = strlen(r->mark);
    const char *end = p + n, *at, *line;

    while (mark > 0 && (at = memmem(p, (size_t)(end - p), r->mark, mark)) != NULL) {
        line = memchr(at, '\n', (size_t)(end - at));
        if (line == NULL || line == at + mark) /* none of ours is without a kind or an end */
            break;
        if (at > p)
            output_text(out, false, p, (size_t)(at - p));
        take_message(r, out, at[mark], at + mark + 1, (size_t)(line - at) - mark - 1);
        p = line + 1;
    }
    if (end > p)
        output_text(out, false, p, (size_t)(end - p));
}
