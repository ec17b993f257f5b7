/* SPDX-License-Identifier: MIT */
#include "api/send_file.h"

#include <string.h>
#include <unistd.h>

#include "http/disposition.h"

/* Opens it; a folder is told how to list it. */
static int
open_out(struct manager *m, struct file_call *call, struct out_file *f, struct err *err)
{
    const char *slash;
    struct file_info info;
    struct err no = ERR_INIT;

    if (manager_file_open(m, &call->lease, call->path, call->n, &f->fd, &f->info, err) < 0) {
        f->fd = -1;
        if (err->slug != NULL && strcmp(err->slug, "not_a_file") == 0 &&
            manager_file_stat(m, &call->lease, call->path, call->n, &info, &no) == 0 &&
            info.type == FILE_DIRECTORY)
            return err_slug(err, ERR_INVALID, "not_a_file",
                            "this is a folder; GET /v1/sessions/%s/files?path=… lists it",
                            call->lease.session.name);
        return -1;
    }
    file_etag(&f->info, clock_wall_ms(), f->etag);
    slash = memrchr(call->path, '/', call->n);
    f->name = slash != NULL ? slash + 1 : call->path;
    f->name_len = call->n - (size_t)(f->name - call->path);
    f->type = http_media_type(f->name, f->name_len);
    return 0;
}

void
handle_file_get(struct api_call *c)
{
    struct out_file f = {.fd = -1};
    struct err err = ERR_INIT;
    struct file_call call;
    int rc;

    if (file_call_begin(c, &call, &err) < 0) {
        api_problem(c, &err);
        return;
    }
    rc = open_out(c->api->o.manager, &call, &f, &err);
    if (rc == 0)
        rc = send_out_file(c, &f, &err);
    if (rc < 0)
        api_problem(c, &err);
    if (f.fd >= 0)
        (void)close(f.fd);
    file_call_end(c, &call, rc > 0);
}
