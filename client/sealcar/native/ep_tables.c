/* Function tables: what a wrapped plugin sees of the runtime. It gets copies in which the look-up of
 * experimental functions answers the four old names with the stable ones (same signatures), and a
 * kernel that asks for its provider gets the plugin's own object. */
#define _GNU_SOURCE
#include "ep_compat.h"
#include <pthread.h>
#include <string.h>

_Thread_local struct plugin *sealcar_ep_resolving;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct api_base *real_base;
static struct api_base base_copy;
static void *const *real_api, *const *real_ep_api;
static void *api_copy[API_SLOTS_30], *ep_api_copy[EP_API_SLOTS];

static const struct {
    const char *name;
    int slot, supports;
} old_names[] = {
    {"OrtEpApi_SessionOptions_GetEpContextConfig_SinceV28", CONFIG_GET, 0},
    {"OrtEpApi_ReleaseEpContextConfig_SinceV28", CONFIG_RELEASE, 0},
    {"OrtEpApi_EpContextConfig_GetEpContextDataReadFunc_SinceV28", CONFIG_READ, SUPPORT_READ},
    {"OrtEpApi_EpContextConfig_GetEpContextDataWriteFunc_SinceV28", CONFIG_WRITE, SUPPORT_WRITE},
};

static void *experimental(const char *name)
{
    void *found = ((void *(*)(const char *))real_api[GET_EXPERIMENTAL])(name);
    if (found || !name)
        return found;
    for (size_t i = 0; i < sizeof old_names / sizeof *old_names; i++)
        if (strcmp(name, old_names[i].name) == 0) {
            if (sealcar_ep_resolving)
                __atomic_fetch_or(&sealcar_ep_resolving->supports, old_names[i].supports,
                                  __ATOMIC_RELAXED);
            return real_ep_api[old_names[i].slot];
        }
    return NULL;
}

static void *kernel_info_get_ep(const void *info, const void **ep)
{
    void *status =
        ((void *(*)(const void *, const void **))real_ep_api[KERNEL_INFO_GET_EP])(info, ep);
    if (!status)
        *ep = sealcar_ep_inner(*ep);
    return status;
}

static const void *get_ep_api(void)
{
    return ep_api_copy;
}

/* A plugin that asks for the stable version needs no help. One that asks for less sees no further
 * than version 30's table, so that is what the copy holds. */
static const void *get_api(uint32_t version)
{
    const void *api = real_base->get_api(version);
    return !api || version >= FIRST_STABLE ? api : api_copy;
}

static void fill(const struct api_base *base, void *const *api)
{
    real_base = base;
    real_api = api;
    real_ep_api = ((void *const *(*)(void))real_api[GET_EP_API])();
    memcpy(api_copy, real_api, sizeof api_copy);
    memcpy(ep_api_copy, real_ep_api, sizeof ep_api_copy);
    ep_api_copy[KERNEL_INFO_GET_EP] = (void *)kernel_info_get_ep;
    api_copy[GET_EP_API] = (void *)get_ep_api;
    api_copy[GET_EXPERIMENTAL] = (void *)experimental;
    base_copy = (struct api_base){get_api, base->get_version};
}

int sealcar_ep_tables_open(const struct api_base *base)
{
    void *const *api = main_table(base);
    if (minor_version(base) < FIRST_STABLE || !api)
        return 0;
    pthread_mutex_lock(&lock);
    if (!real_base)
        fill(base, api);
    pthread_mutex_unlock(&lock);
    return 1;
}

const struct api_base *sealcar_ep_base(void)
{
    return &base_copy;
}
