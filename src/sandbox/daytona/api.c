/* SPDX-License-Identifier: MIT */
#include "sandbox/daytona/api.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

#define DEPTH_MAX 40
#define PATH_BYTES 4096
#define BODY_MAX 8192
#define PAGE 200 /* boxes an answer holds at most */
#define PAGES_MAX 50
#define CURSOR_MAX 1024
#define DELETES_MAX 10
#define DELETE_PAUSE_MS 300

int
api_unreached(const char *who, const char *what, const struct err *why, struct err *err)
{
    if (why->code == ERR_LIMIT)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error", "%s, asked to %s: %s", who, what,
                        why->msg);
    if (why->code == ERR_INTERNAL || why->code == ERR_NOMEM) {
        if (err != NULL)
            *err = *why;
        return -1;
    }
    return err_slug(err, ERR_UNAVAILABLE, "gateway_unavailable",
                    "%s, asked to %s, did not answer: %s", who, what, why->msg);
}

int
api_judge(const struct rest_reply *r, const char *who, const char *what, struct err *err)
{
    if (r->status >= 200 && r->status < 300)
        return 0;
    if (r->status >= 300 && r->status < 400)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "asked to %s, %s answered with a redirect (%d), which is not followed",
                        what, who, r->status);
    if (r->status == 401 || r->status == 403)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "%s refused to %s (%d): is the key right, and does its quota allow this?",
                        who, what, r->status);
    if (r->status == 404)
        return err_set(err, ERR_NOT_FOUND, "asked to %s, %s answered 404", what, who);
    return err_slug(err, ERR_UNAVAILABLE,
                    r->status >= 500 || r->status == 429 || r->status == 408 ? "gateway_unavailable"
                                                                             : "gateway_error",
                    "asked to %s, %s answered %d", what, who, r->status);
}

int
api_parse(const struct rest_reply *r, const char *what, struct json_doc **ret, struct err *err)
{
    if (r->is_json && json_parse(r->body, r->body_len, DEPTH_MAX, JSON_LAX, ret, NULL) == 0)
        return 0;
    return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                    "asked to %s, the address answered %d without JSON: it is no Daytona API", what,
                    r->status);
}

static int
call(struct daytona *dt, const char *method, const char *path, const char *body, const char *what,
     struct deadline d, struct rest_reply *ret, struct err *err)
{
    struct err why = ERR_INIT;

    d = deadline_min(d, deadline_in(dt->o.http_timeout_ms));
    if (rest_call(dt->api, method, path, body, d, ret, &why) < 0)
        return api_unreached("Daytona", what, &why, err);
    return api_judge(ret, "Daytona", what, err);
}

static void
path_of(char out[PATH_BYTES], const char *id, const char *tail)
{
    (void)snprintf(out, PATH_BYTES, "/sandbox/%s%s", id, tail);
}

/* The base of its toolbox, so that it need not be asked for. */
static void
remember(struct daytona *dt, const struct box *b)
{
    int i = 0;

    if (b->toolbox[0] == '\0')
        return;
    while (i < DAYTONA_TOOLBOXES && strcmp(dt->known[i].id, b->id) != 0)
        i++;
    if (i == DAYTONA_TOOLBOXES) {
        i = dt->known_next;
        dt->known_next = (i + 1) % DAYTONA_TOOLBOXES;
    }
    memcpy(dt->known[i].id, b->id, sizeof b->id);
    memcpy(dt->known[i].url, b->toolbox, sizeof b->toolbox);
}

/* A call whose answer is a box. */
static int
call_box(struct daytona *dt, const char *method, const char *path, const char *body,
         const char *what, struct box *ret, struct deadline d, struct err *err)
{
    struct rest_reply r;
    struct json_doc *doc = NULL;
    bool ok;

    if (call(dt, method, path, body, what, d, &r, err) < 0 || api_parse(&r, what, &doc, err) < 0)
        return -1;
    ok = box_read(ret, json_root(doc));
    json_free(doc);
    if (!ok)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "asked to %s, Daytona's answer was no sandbox", what);
    remember(dt, ret);
    return 0;
}

int
api_get(struct daytona *dt, const char *id, struct box *ret, struct deadline d, struct err *err)
{
    char path[PATH_BYTES];

    path_of(path, id, "");
    if (call_box(dt, "GET", path, NULL, "show a sandbox", ret, d, err) < 0)
        return -1;
    if (strcmp(ret->id, id) != 0) /* nothing of it may be taken for the state of this one */
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "asked to show a sandbox, Daytona showed another");
    return 0;
}

int
api_create(struct daytona *dt, const char *key, struct box *ret, struct deadline d, struct err *err)
{
    _cleanup_buf_ struct buf body = BUF_INIT(BODY_MAX);
    struct err why = ERR_INIT;
    struct rest_reply r;
    struct json_doc *doc = NULL;
    int64_t half = deadline_left_ms(d) / 2;
    bool ok;

    /* Time must be left to look for one whose making was not heard of. */
    d = deadline_min(d, deadline_in(half > dt->o.http_timeout_ms ? half : dt->o.http_timeout_ms));
    box_request(&body, &dt->o, key);
    if (buf_check(&body, "the request for a sandbox", err) < 0)
        return -1;
    if (rest_call(dt->api, "POST", "/sandbox", buf_str(&body), d, &r, &why) < 0) {
        (void)api_unreached("Daytona", "make a sandbox", &why, err);
        if (err != NULL && why.code != ERR_UNAVAILABLE)
            err->code = ERR_UNCERTAIN; /* it was sent */
        return -1;
    }
    if (api_judge(&r, "Daytona", "make a sandbox", err) < 0) {
        if (err != NULL && (r.status >= 500 || r.status == 408))
            err->code = ERR_UNCERTAIN;
        return -1;
    }
    if (api_parse(&r, "make a sandbox", &doc, err) < 0) {
        if (err != NULL)
            err->code = ERR_UNCERTAIN;
        return -1;
    }
    /* What is made for another must not become ours, nor be deleted when it is of no use. */
    ok = box_read(ret, json_root(doc)) && box_is_of(json_root(doc), dt->o.deployment, key);
    json_free(doc);
    if (!ok)
        return err_slug(err, ERR_UNCERTAIN, "gateway_error",
                        "asked to make a sandbox, Daytona's answer was none of ours");
    remember(dt, ret);
    return 0;
}

/* What a list is asked for, and how far it has come. */
struct pages {
    const char *key;
    struct buf query, cursor;
    api_box_cb cb;
    void *ctx;
};

/* Hands the boxes of a page on: 1 go on, 0 cb said no, -1 that is no list of boxes.  A server that
 * filters otherwise than it was asked to must not give us the boxes of others. */
static int
take_page(const struct daytona *dt, const struct pages *p, json_val items)
{
    if (json_type(items) != JSON_ARRAY)
        return -1;
    for (size_t i = 0; i < json_length(items); i++) {
        json_val item = json_item(items, i);
        struct box b;

        if (!box_read(&b, item))
            return -1;
        if (b.state != BOX_ENDED && box_is_of(item, dt->o.deployment, p->key) &&
            p->cb(p->ctx, &b) != 0)
            return 0;
    }
    return 1;
}

/* One page: 1 there is another (p->cursor is its), 0 the last or cb said no, -1. */
static int
page(struct daytona *dt, struct pages *p, struct deadline d, struct err *err)
{
    _cleanup_buf_ struct buf path = BUF_INIT(PATH_BYTES);
    struct rest_reply r;
    struct json_doc *doc = NULL;
    json_val items;
    const char *next;
    int more;

    (void)buf_append(&path, p->query.data, p->query.len);
    if (p->cursor.len > 0) {
        (void)buf_puts(&path, "&cursor=");
        (void)rest_escape(&path, buf_str(&p->cursor));
    }
    if (buf_check(&path, "the URL of a list", err) < 0 ||
        call(dt, "GET", buf_str(&path), NULL, "list sandboxes", d, &r, err) < 0 ||
        api_parse(&r, "list sandboxes", &doc, err) < 0)
        return -1;
    items = json_member(json_root(doc), "items");
    next = json_cstring(json_member(json_root(doc), "nextCursor"));
    buf_clear(&p->cursor);
    if (next != NULL)
        (void)buf_puts(&p->cursor, next);
    more = p->cursor.failed ? -1 : take_page(dt, p, items);
    json_free(doc);
    if (more < 0)
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "asked to list sandboxes, Daytona gave no list");
    return more > 0 && p->cursor.len > 0;
}

/* All of them, or an error: who is missing in a list that was cut short would be made once more. */
static int
all_pages(struct daytona *dt, struct pages *p, struct deadline d, struct err *err)
{
    int more = 1;

    (void)buf_printf(&p->query, "&limit=%d", PAGE);
    if (buf_check(&p->query, "the labels of a sandbox", err) < 0)
        return -1;
    for (int i = 0; more > 0; i++) {
        if (i == PAGES_MAX)
            return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                            "asked to list sandboxes, Daytona came to no end in %d pages",
                            PAGES_MAX);
        more = page(dt, p, d, err);
    }
    return more;
}

int
api_each(struct daytona *dt, const char *key, api_box_cb cb, void *ctx, struct deadline d,
         struct err *err)
{
    _cleanup_buf_ struct buf labels = BUF_INIT(1024);
    struct pages p = {.key = key,
                      .query = BUF_INIT(PATH_BYTES),
                      .cursor = BUF_INIT(CURSOR_MAX),
                      .cb = cb,
                      .ctx = ctx};
    int rc;

    box_labels(&labels, dt->o.deployment, key);
    (void)buf_puts(&p.query, "/sandbox?labels=");
    (void)rest_escape(&p.query, buf_str(&labels));
    rc = all_pages(dt, &p, d, err);
    buf_done(&p.query);
    buf_done(&p.cursor);
    return rc;
}

/* A change of state that is refused because it is under way already, or done, is none. */
static int
change(struct daytona *dt, const char *id, const char *tail, const char *what, struct deadline d,
       struct err *err)
{
    char path[PATH_BYTES];
    struct err why = ERR_INIT;
    struct rest_reply r;
    struct box b;

    path_of(path, id, tail);
    if (call(dt, "POST", path, NULL, what, d, &r, &why) == 0 || why.code == ERR_NOT_FOUND)
        return 0;
    if (why.slug != NULL && strcmp(why.slug, "gateway_error") == 0 &&
        api_get(dt, id, &b, d, NULL) == 0 && b.state != BOX_STARTED && b.state != BOX_BROKEN)
        return 0;
    if (err != NULL)
        *err = why;
    return -1;
}

int
api_start(struct daytona *dt, const char *id, struct deadline d, struct err *err)
{
    struct box b;

    if (change(dt, id, "/start", "start a sandbox", d, err) == 0)
        return 0;
    /* started by somebody else meanwhile */
    return api_get(dt, id, &b, d, NULL) == 0 && b.state == BOX_STARTED ? 0 : -1;
}

int
api_stop(struct daytona *dt, const char *id, struct deadline d, struct err *err)
{
    return change(dt, id, "/stop", "stop a sandbox", d, err);
}

int
api_delete(struct daytona *dt, const char *id, struct deadline d, struct err *err)
{
    char path[PATH_BYTES];
    struct err why = ERR_INIT;
    struct rest_reply r;

    path_of(path, id, "");
    for (int i = 0; i < DELETES_MAX; i++) {
        why = (struct err)ERR_INIT;
        if (call(dt, "DELETE", path, NULL, "delete a sandbox", d, &r, &why) == 0 ||
            why.code == ERR_NOT_FOUND)
            return 0;
        if (deadline_left_ms(d) <= DELETE_PAUSE_MS)
            break;
        (void)poll(NULL, 0, DELETE_PAUSE_MS);
    }
    return err_slug(err, ERR_UNCERTAIN, why.slug, "%s", why.msg);
}

static bool
recall(const struct daytona *dt, const char *id, char ret[BOX_URL_MAX + 1])
{
    for (int i = 0; i < DAYTONA_TOOLBOXES; i++)
        if (strcmp(dt->known[i].id, id) == 0) {
            memcpy(ret, dt->known[i].url, sizeof dt->known[i].url);
            return true;
        }
    return false;
}

/* Asked for by a call of its own where a box does not tell it. */
static int
ask_toolbox_url(struct daytona *dt, struct box *b, struct deadline d, struct err *err)
{
    char path[PATH_BYTES];
    struct rest_reply r;
    struct json_doc *doc = NULL;
    const char *url;

    path_of(path, b->id, "/toolbox-proxy-url");
    if (call(dt, "GET", path, NULL, "name a toolbox", d, &r, err) < 0 ||
        api_parse(&r, "name a toolbox", &doc, err) < 0)
        return -1;
    url = json_cstring(json_member(json_root(doc), "url"));
    if (url != NULL && strlen(url) <= BOX_URL_MAX)
        (void)snprintf(b->toolbox, sizeof b->toolbox, "%s", url);
    json_free(doc);
    return 0;
}

int
api_toolbox_url(struct daytona *dt, const char *id, char ret[BOX_URL_MAX + 1], struct deadline d,
                struct err *err)
{
    struct box b;

    if (recall(dt, id, ret))
        return 0;
    if (api_get(dt, id, &b, d, err) < 0 ||
        (b.toolbox[0] == '\0' && ask_toolbox_url(dt, &b, d, err) < 0))
        return -1;
    /* The key goes there: never in the clear where the API itself is not. */
    if (strncasecmp(b.toolbox, "https://", 8) != 0 &&
        (strncasecmp(b.toolbox, "http://", 7) != 0 ||
         strncasecmp(dt->o.daytona_url, "https://", 8) == 0))
        return err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                        "Daytona named no usable address of the sandbox's toolbox");
    remember(dt, &b);
    memcpy(ret, b.toolbox, sizeof b.toolbox);
    return 0;
}

int
api_ping(struct daytona *dt, struct deadline d, struct err *err)
{
    struct rest_reply r;
    struct json_doc *doc = NULL;
    bool ok;

    if (call(dt, "GET", "/sandbox?limit=1", NULL, "list sandboxes", d, &r, err) < 0) {
        if (err != NULL && err->code == ERR_NOT_FOUND) {
            err->code = ERR_UNAVAILABLE;
            err->slug = "gateway_error";
        }
        return -1;
    }
    if (api_parse(&r, "list sandboxes", &doc, err) < 0)
        return -1;
    ok = json_type(json_member(json_root(doc), "items")) == JSON_ARRAY;
    json_free(doc);
    return ok ? 0
              : err_slug(err, ERR_UNAVAILABLE, "gateway_error",
                         "asked to list sandboxes, Daytona gave no list");
}
