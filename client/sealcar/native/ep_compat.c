/* The compat wrapper: runs plugin execution providers of the 1.28 to 1.30 generation, which know the
 * EPContext callbacks by their experimental names only, under ONNX Runtime 1.31 and later, where
 * these names are gone and a provider has to declare that it honours the callbacks.
 *
 * sealcar_ep_target names the real plugin for a registration name; then this library is registered
 * with the runtime under that name. Only callbacks whose accessor the plugin really looked up are
 * declared, so a plugin that never adopted them stays rejected instead of writing plain files. A
 * provider that declares support itself is passed through, and so is all under 1.30 and earlier.
 *
 * Nothing here ends the process: whatever fails is a status that the runtime reports. */
#define _GNU_SOURCE
#include "ep_compat.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *(*create_factories)(const char *, const struct api_base *, const void *, void **,
                                  size_t, size_t *);
typedef void *(*release_factory)(void *);
typedef void *(*create_ep)(void *, void *, void *, size_t, void *, void *, void ***);
typedef void (*release_ep)(void *, void *);

struct target {
    char *name;
    struct plugin *plugin;
    struct target *next;
};

struct factory { /* of a plugin: its object is patched in place, since the runtime refers to it */
    void **object;
    struct target *target;
    create_ep create;
    release_ep release;
    struct factory *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plugin *plugins;
static struct target *targets;
static struct factory *factories;
static void *const *status_api;

void *sealcar_ep_status(const char *text)
{
    return new_status(status_api, ORT_FAIL, text);
}

/* ---- the look-ups; all under the lock ---------------------------------------------------- */
static struct target *target_of(const char *name)
{
    struct target *t = targets;
    while (t && strcmp(t->name, name) != 0)
        t = t->next;
    return t;
}

static struct plugin *plugin_of(void *handle)
{
    struct plugin *p = plugins;
    while (p && p->handle != handle)
        p = p->next;
    return p;
}

static struct factory **link_of(const void *object)
{
    struct factory **link = &factories;
    while (*link && (const void *)(*link)->object != object)
        link = &(*link)->next;
    return link;
}

static int registered(const struct target *target)
{
    for (struct factory *f = factories; f; f = f->next)
        if (f->target == target)
            return 1;
    return 0;
}

/* a copy of what is known of a factory; 0 if nothing is */
static int known(const void *object, struct factory *copy)
{
    pthread_mutex_lock(&lock);
    struct factory *f = *link_of(object);
    if (f)
        *copy = *f;
    pthread_mutex_unlock(&lock);
    return f != NULL;
}

/* ---- what sealcar calls ------------------------------------------------------------------ */
static const char *set_target(const char *name, void *handle)
{
    struct plugin *p = plugin_of(handle);
    struct target *t = target_of(name);
    if (t && registered(t))
        return "this name is registered";
    if (!p) {
        if (!(p = calloc(1, sizeof *p)))
            return "no memory";
        *p = (struct plugin){handle, 0, plugins};
        plugins = p;
    }
    if (!t) {
        char *copy = strdup(name);
        if (!copy || !(t = calloc(1, sizeof *t))) {
            free(copy);
            return "no memory";
        }
        *t = (struct target){copy, NULL, targets};
        targets = t;
    }
    t->plugin = p;
    return NULL;
}

/* Name the plugin that is meant by a registration name. Returns 0, or -1 with the reason in why. */
int sealcar_ep_target(const char *name, const char *path, char *why, size_t size)
{
    /* never unloaded: plugins leave threads and thread-local destructors behind */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *reason = handle ? NULL : dlerror();
    if (handle && (!dlsym(handle, "CreateEpFactories") || !dlsym(handle, "ReleaseEpFactory")))
        reason = "it is no plugin of execution providers";
    pthread_mutex_lock(&lock);
    if (!reason)
        reason = set_target(name, handle);
    pthread_mutex_unlock(&lock);
    if (reason)
        snprintf(why, size, "%s", reason);
    return reason ? -1 : 0;
}

/* How many providers, so sessions, of a registration are alive. */
size_t sealcar_ep_alive(const char *name)
{
    size_t count = 0;
    pthread_mutex_lock(&lock);
    struct target *t = target_of(name);
    for (struct factory *f = factories; f; f = f->next)
        if (t && f->target == t)
            count += sealcar_ep_count(f->object);
    pthread_mutex_unlock(&lock);
    return count;
}

/* SUPPORT_… of what a registration's plugin looked up so far; -1 if the name is unknown. */
int sealcar_ep_support(const char *name)
{
    pthread_mutex_lock(&lock);
    struct target *t = target_of(name);
    int supports = t ? __atomic_load_n(&t->plugin->supports, __ATOMIC_RELAXED) : -1;
    pthread_mutex_unlock(&lock);
    return supports;
}

/* ---- what the runtime calls -------------------------------------------------------------- */
static void *wrapping_create_ep(void *self, void *devices, void *metadata, size_t count,
                                void *options, void *logger, void ***ep)
{
    struct factory f;
    if (!known(self, &f))
        return sealcar_ep_status("a provider of an unknown factory was asked for");
    struct plugin *outer = sealcar_ep_resolving;
    sealcar_ep_resolving = f.target->plugin;
    void *status = f.create(self, devices, metadata, count, options, logger, ep);
    sealcar_ep_resolving = outer;
    if (status || !*ep)
        return status;
    status = sealcar_ep_wrap(ep, f.target->plugin, self);
    if (status) {
        f.release(self, *ep);
        *ep = NULL;
    }
    return status;
}

static void wrapping_release_ep(void *self, void *ep)
{
    struct factory f;
    if (known(self, &f))
        f.release(self, sealcar_ep_unwrap(ep));
}

static int adopt(void **object, struct target *target, int wrap)
{
    struct factory *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    *f = (struct factory){object, target, (create_ep)object[FACTORY_CREATE_EP],
                          (release_ep)object[FACTORY_RELEASE_EP], NULL};
    pthread_mutex_lock(&lock);
    f->next = factories;
    factories = f;
    pthread_mutex_unlock(&lock);
    if (wrap) {
        object[FACTORY_CREATE_EP] = (void *)wrapping_create_ep;
        object[FACTORY_RELEASE_EP] = (void *)wrapping_release_ep;
    }
    return 0;
}

void *ReleaseEpFactory(void *object)
{
    pthread_mutex_lock(&lock);
    struct factory **link = link_of(object), *f = *link;
    if (f)
        *link = f->next;
    pthread_mutex_unlock(&lock);
    if (!f)
        return NULL;
    /* as it was: the plugin may hand out the same object again */
    f->object[FACTORY_CREATE_EP] = (void *)f->create;
    f->object[FACTORY_RELEASE_EP] = (void *)f->release;
    release_factory release =
        (release_factory)dlsym(f->target->plugin->handle, "ReleaseEpFactory");
    free(f);
    return release(object);
}

/* Takes all factories over, or gives all of them back. */
static void *adopt_all(void **made, size_t *count, struct target *target, int wrap)
{
    size_t adopted = 0;
    while (adopted < *count && adopt(made[adopted], target, wrap) == 0)
        adopted++;
    if (adopted == *count)
        return NULL;
    release_factory release = (release_factory)dlsym(target->plugin->handle, "ReleaseEpFactory");
    for (size_t i = 0; i < *count; i++)
        i < adopted ? ReleaseEpFactory(made[i]) : release(made[i]);
    *count = 0;
    return sealcar_ep_status("no memory for a plugin's factories");
}

void *CreateEpFactories(const char *name, const struct api_base *base, const void *logger,
                        void **made, size_t max, size_t *count)
{
    pthread_mutex_lock(&lock);
    struct target *target = target_of(name);
    status_api = base->get_api(API_VERSION);
    pthread_mutex_unlock(&lock);
    if (!target)
        return sealcar_ep_status("register this library with sealcar.ort.register_ep only");
    int wrap = sealcar_ep_tables_open(base);
    create_factories create =
        (create_factories)dlsym(target->plugin->handle, "CreateEpFactories");
    sealcar_ep_resolving = target->plugin;
    void *status =
        create(name, wrap ? sealcar_ep_base() : base, logger, made, max, count);
    sealcar_ep_resolving = NULL;
    return status ? status : adopt_all(made, count, target, wrap);
}
