/* SPDX-License-Identifier: MIT */
#include "manager/manager.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "manager/blobs.h"
#include "manager/internal.h"
#include "store/artifact_store.h"

/* Contents that no row names are removed when they are so old: a run that has just written one is
 * about to name it. Looking for them walks over all. */
#define UNNAMED_MS (10 * 60 * INT64_C(1000))
#define LOOK_EVERY_MS (5 * 60 * INT64_C(1000))

int
manager_artifacts_dir(struct manager *m, struct err *err)
{
    if (m->artifacts_fd >= 0)
        return 0;
    if (!m->o.artifacts_dir)
        return err_slug(err, ERR_UNAVAILABLE, "not_implemented", "artifacts are not kept here");
    if (manager_state_dir(m->o.artifacts_dir, err) < 0)
        return -1;
    m->artifacts_fd = blobs_open(m->o.artifacts_dir, err);
    return m->artifacts_fd < 0 ? -1 : 0;
}

static int
found(int r, struct err *err)
{
    if (r == 0)
        return err_slug(err, ERR_NOT_FOUND, "artifact_not_found", "there is no such artifact");
    return r < 0 ? -1 : 0;
}

int
manager_artifact_get(struct manager *m, const struct caller *c, const char *id, int64_t version,
                     struct artifact *ret, struct err *err)
{
    return found(artifact_store_get(m->db, caller_owner(c), id, version, ret, err), err);
}

int
manager_artifact_by_ref(struct manager *m, const struct caller *c, const char *session_name,
                        int64_t ref, struct artifact *ret, struct err *err)
{
    return found(artifact_store_by_ref(m->db, c->owner, session_name, ref, ret, err), err);
}

int
manager_artifacts(struct manager *m, const struct caller *c, const char *session_name,
                  int64_t after_aid, int limit, struct artifact **ret, size_t *ret_n,
                  bool *ret_more, struct err *err)
{
    return artifact_store_list(m->db, caller_owner(c), session_name, after_aid, limit, ret, ret_n,
                               ret_more, err);
}

int
manager_artifact_versions(struct manager *m, const struct caller *c, const char *id,
                          int64_t after_version, int limit, struct artifact **ret, size_t *ret_n,
                          bool *ret_more, struct err *err)
{
    struct artifact a;

    if (manager_artifact_get(m, c, id, 0, &a, err) < 0)
        return -1;
    return artifact_store_versions(m->db, a.aid, after_version, limit, ret, ret_n, ret_more, err);
}

int
manager_artifact_open(struct manager *m, const struct artifact *a, int *ret_fd, struct err *err)
{
    struct artifact again;

    if (manager_artifacts_dir(m, err) < 0)
        return -1;
    if (blobs_get(m->artifacts_fd, a->sha256, ret_fd, err) == 0)
        return 0;
    /* Removed since the row was read? */
    if (artifact_store_get(m->db, NULL, a->artifact_id, a->version, &again, NULL) == 0)
        return found(0, err);
    return -1;
}

static int
remove_blob(void *ctx, const char *sha256)
{
    const struct manager *m = ctx;

    return blobs_remove(m->artifacts_fd, sha256);
}

bool
artifact_content_forget(struct manager *m, const char *sha256)
{
    struct err err = ERR_INIT;
    int r = artifact_store_forget(m->db, sha256, remove_blob, m, &err);

    if (r < 0)
        log_warning("a content is left to the next sweep: %s", err.msg);
    return r > 0;
}

static void
on_blob(void *ctx, const char *sha256)
{
    (void)artifact_content_forget(ctx, sha256);
}

int
manager_artifact_remove(struct manager *m, const struct caller *c, const char *id, struct err *err)
{
    struct artifact a;

    if (manager_artifacts_dir(m, err) < 0 || manager_artifact_get(m, c, id, 0, &a, err) < 0)
        return -1;
    return found(artifact_store_remove(m->db, a.aid, on_blob, m, err), err);
}

struct unnamed {
    struct manager *m;
    int removed;
};

static void
on_old(void *ctx, const char *sha256)
{
    struct unnamed *u = ctx;

    if (artifact_content_forget(u->m, sha256))
        u->removed++;
}

void
upkeep_artifacts(struct manager *m, struct deadline d, struct sweep_report *r)
{
    struct unnamed u = {.m = m};
    struct err err = ERR_INIT;
    struct stat st;

    if (!m->o.artifacts_dir || clock_mono_ms() - m->artifacts_looked_ms < LOOK_EVERY_MS ||
        stat(m->o.artifacts_dir, &st) < 0)
        return;
    m->artifacts_looked_ms = clock_mono_ms();
    if (manager_artifacts_dir(m, &err) < 0) {
        log_warning("upkeep, artifacts: %s", err.msg);
        return;
    }
    blobs_old(m->artifacts_fd, clock_wall_ms() - UNNAMED_MS, d, on_old, &u);
    r->blobs_removed += u.removed;
}
