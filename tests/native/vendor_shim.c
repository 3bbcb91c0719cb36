/* Stands between the runtime and a published plugin, for tests on any machine.
 *
 * SEALCAR_SHIM_PLUGIN names the plugin's library. The plugin gets a copy of the runtime's function
 * table in which every CPU is Intel's, since OpenVINO's refuses others. With SEALCAR_SHIM_HIDE set,
 * the look-up of experimental functions also finds nothing: so behaves a plugin that never adopted
 * the EPContext callbacks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct api_base {
    const void *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
};

enum { CREATE_STATUS = 0, DEVICE_TYPE = 307, DEVICE_VENDOR = 308, GET_EXPERIMENTAL = 422 };
enum { CPU = 0, INTEL = 0x8086, OLDEST = 28, NEWEST = 32, MOST_SLOTS = 429 };

static const struct api_base *real_base;
static struct api_base shim_base;
static void *const *real_table;
static void *tables[NEWEST - OLDEST + 1][MOST_SLOTS];

/* what a table of a version has at least: never read past what the asked version promises */
static size_t slots_of(uint32_t version)
{
    static const size_t slots[] = {424, 425, 426, 427, 429};
    return slots[version - OLDEST];
}

static uint32_t device_vendor(const void *device)
{
    int (*type)(const void *) = (int (*)(const void *))real_table[DEVICE_TYPE];
    uint32_t (*vendor)(const void *) = (uint32_t(*)(const void *))real_table[DEVICE_VENDOR];
    return type(device) == CPU ? INTEL : vendor(device);
}

static void *no_experimental(const char *name)
{
    (void)name;
    return NULL;
}

static const void *get_api(uint32_t version)
{
    const void *api = real_base->get_api(version);
    if (!api || version < OLDEST || version > NEWEST)
        return api;
    void **table = tables[version - OLDEST];
    real_table = api;
    memcpy(table, api, slots_of(version) * sizeof *table);
    table[DEVICE_VENDOR] = (void *)device_vendor;
    if (getenv("SEALCAR_SHIM_HIDE"))
        table[GET_EXPERIMENTAL] = (void *)no_experimental;
    return table;
}

static void *symbol(const char *name)
{
    const char *path = getenv("SEALCAR_SHIM_PLUGIN");
    void *plugin = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    return plugin ? dlsym(plugin, name) : NULL;
}

void *CreateEpFactories(const char *name, const struct api_base *base, const void *logger,
                        void **factories, size_t max, size_t *count)
{
    void *(*create)(const char *, const struct api_base *, const void *, void **, size_t,
                    size_t *) = symbol("CreateEpFactories");
    if (!create) {
        void *const *api = base->get_api(OLDEST);
        return ((void *(*)(int, const char *))api[CREATE_STATUS])(1, "SEALCAR_SHIM_PLUGIN?");
    }
    real_base = base;
    shim_base = (struct api_base){get_api, base->get_version};
    return create(name, &shim_base, logger, factories, max, count);
}

void *ReleaseEpFactory(void *factory)
{
    void *(*release)(void *) = symbol("ReleaseEpFactory");
    return release ? release(factory) : NULL;
}
