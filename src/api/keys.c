/* SPDX-License-Identifier: MIT */
#include "api/call.h"

#include <stdlib.h>
#include <string.h>

#include "api/decode.h"
#include "api/render.h"
#include "base/id.h"
#include "json/writer.h"

#define KEY_BYTES_MAX 4096
#define LIST_BYTES_MAX (16 * 1024 * 1024)

void
handle_key_create(struct api_call *c)
{
    _cleanup_buf_ struct buf text = BUF_INIT(LIMIT_JSON_BODY);
    _cleanup_buf_ struct buf out = BUF_INIT(KEY_BYTES_MAX);
    char token[KEY_TOKEN_SIZE];
    struct json_writer w;
    struct err err = ERR_INIT;
    struct key_body body;
    struct key_info key;

    if (api_read_json(c, text.max, &text, &err) < 0 ||
        decode_key(buf_str(&text), text.len, &body, &err) < 0 ||
        manager_key_create(c->api->o.manager, body.owner, body.scopes, body.expires_at, body.note,
                           token, &key, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    jw_init(&w, &out);
    jw_object(&w, NULL);
    jw_string(&w, "token", token);
    render_key_members(&w, &key);
    jw_end_object(&w);
    explicit_bzero(token, sizeof(token));
    api_send_json(c, 201, &out);
    if (out.data != NULL)
        explicit_bzero(out.data, out.len);
}

void
handle_key_list(struct api_call *c)
{
    _cleanup_buf_ struct buf out = BUF_INIT(LIST_BYTES_MAX);
    struct key_info *keys = NULL;
    struct json_writer w;
    struct err err = ERR_INIT;
    size_t n = 0;

    if (manager_key_list(c->api->o.manager, &keys, &n, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    jw_init(&w, &out);
    jw_object(&w, NULL);
    jw_array(&w, "keys");
    render_keys(&w, keys, n);
    jw_end_array(&w);
    jw_end_object(&w);
    api_send_json(c, 200, &out);
    free(keys);
}

void
handle_key_revoke(struct api_call *c)
{
    const struct http_param *p = &c->x->req.params[0];
    struct err err = ERR_INIT;

    if (!id_in_alphabet(p->value, p->len, 1, sizeof(((struct key_info *)0)->key_id) - 1)) {
        (void)err_slug(&err, ERR_NOT_FOUND, "key_not_found", "there is no such key");
        api_problem(c, &err);
        return;
    }
    if (manager_key_revoke(c->api->o.manager, p->value, &err) < 0)
        api_problem(c, &err);
    else
        api_send_empty(c, 204);
}
