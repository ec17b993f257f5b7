/* SPDX-License-Identifier: MIT */
#include "http/disposition.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 255

/* `shown`: a plain picture, which a browser may show in place. */
static const struct media {
    const char *ext, *type;
    bool shown;
} media[] = {
    {"png", "image/png", true},
    {"jpg", "image/jpeg", true},
    {"jpeg", "image/jpeg", true},
    {"gif", "image/gif", true},
    {"webp", "image/webp", true},
    {"bmp", "image/bmp", true},
    {"txt", "text/plain; charset=utf-8", false},
    {"log", "text/plain; charset=utf-8", false},
    {"py", "text/plain; charset=utf-8", false},
    {"md", "text/markdown; charset=utf-8", false},
    {"csv", "text/csv; charset=utf-8", false},
    {"tsv", "text/tab-separated-values; charset=utf-8", false},
    {"json", "application/json", false},
    {"ipynb", "application/json", false},
    {"yaml", "application/yaml", false},
    {"yml", "application/yaml", false},
    {"pdf", "application/pdf", false},
    {"zip", "application/zip", false},
    {"gz", "application/gzip", false},
    {"tar", "application/x-tar", false},
    {"parquet", "application/vnd.apache.parquet", false},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", false},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation", false},
    {"mp3", "audio/mpeg", false},
    {"wav", "audio/wav", false},
    {"mp4", "video/mp4", false},
};

static const struct media *
media_of(const char *name, size_t n)
{
    const char *dot = memrchr(name, '.', n);

    if (!dot || dot == name)
        return NULL;
    size_t ext_n = n - (size_t)(dot + 1 - name);
    for (size_t i = 0; i < sizeof(media) / sizeof(media[0]); i++) {
        if (strlen(media[i].ext) == ext_n && strncasecmp(media[i].ext, dot + 1, ext_n) == 0)
            return &media[i];
    }
    return NULL;
}

const char *
http_media_type(const char *name, size_t n)
{
    const struct media *m = media_of(name, n);

    return m ? m->type : "application/octet-stream";
}

/* What a quoted filename may hold without a client unescaping it in a way of its own. */
static bool
plain(unsigned char c)
{
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '%' && c != '/';
}

/* attr-char of RFC 8187 3.2.1 */
static bool
attr_char(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$&+-.^_`|~", c));
}

int
http_disposition(struct buf *out, const char *name, size_t n)
{
    const char *slash = memrchr(name, '/', n);
    _cleanup_buf_ struct buf text = BUF_INIT(NAME_MAX_BYTES * 3);
    const struct media *m;
    bool extended = false;

    if (slash) {
        n -= (size_t)(slash + 1 - name);
        name = slash + 1;
    }
    m = media_of(name, n);
    (void)buf_puts(out, m && m->shown ? "inline" : "attachment");
    if (n > NAME_MAX_BYTES)
        n = utf8_cut(name, NAME_MAX_BYTES);
    if (n == 0 || utf8_scrub(&text, name, n) < 0)
        return out->failed ? -1 : 0;

    (void)buf_puts(out, "; filename=\"");
    for (size_t i = 0; i < n; i++) {
        bool ok = plain((unsigned char)name[i]);
        (void)buf_putc(out, ok ? name[i] : '_');
        extended = extended || !ok;
    }
    (void)buf_putc(out, '"');
    if (extended) {
        (void)buf_puts(out, "; filename*=UTF-8''");
        for (size_t i = 0; i < text.len; i++) {
            unsigned char c = (unsigned char)text.data[i];
            if (attr_char(c))
                (void)buf_putc(out, (char)c);
            else
                (void)buf_printf(out, "%%%02X", c);
        }
    }
    return out->failed ? -1 : 0;
}
