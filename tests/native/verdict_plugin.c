/* A plugin that computes nothing, called as it is registered. It has a CPU, a GPU and an NPU that
 * don't exist, and says of a compiled model what its compatibility string asks for, so that a test
 * can have every answer: "optimal", "recompile", "unknown", "unsupported" or "error" for any
 * devices, or one for each kind of the first device, as in "cpu:optimal,npu:unsupported". "count:N"
 * is optimal if N devices are asked about. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct api_base {
    const void *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
};

enum { CREATE_STATUS = 0, DEVICE_TYPE = 307, GET_EP_API = 317 };
enum { CREATE_EP_DEVICE = 0, CREATE_HARDWARE_DEVICE = 16 };
enum { UNKNOWN, OPTIMAL, RECOMPILE, UNSUPPORTED, FAIL };
enum { OLDEST = 28, KINDS = 3, VENDOR = 0x5EA1, FACTORY_SLOTS = 64, EP_SLOTS = 16 };

struct factory {
    void *slot[FACTORY_SLOTS];
};

struct provider {
    void *slot[EP_SLOTS];
};

static const uint32_t factory_version = 23, provider_version = 23;
static void *const *api, *const *ep_api;
static const char *const kinds[KINDS] = {"cpu", "gpu", "npu"};
static void *hardware[KINDS];
static char own_name[64];

static const char *get_name(const void *self)
{
    (void)self;
    return own_name;
}

static const char *get_vendor(const void *self)
{
    (void)self;
    return "sealcar's tests";
}

static const char *get_version(const void *self)
{
    (void)self;
    return "1.0.0";
}

static uint32_t get_vendor_id(const void *self)
{
    (void)self;
    return VENDOR;
}

static void *status(int code, const char *text)
{
    return ((void *(*)(int, const char *))api[CREATE_STATUS])(code, text);
}

static void *get_supported_devices(void *self, const void *const *devices, size_t count,
                                   void **found, size_t most, size_t *number)
{
    (void)devices, (void)count;
    void *(*hardware_device)(int, uint32_t, uint32_t, const char *, const void *, void **) =
        (void *(*)(int, uint32_t, uint32_t, const char *, const void *,
                   void **))ep_api[CREATE_HARDWARE_DEVICE];
    void *(*ep_device)(void *, const void *, const void *, const void *, void **) =
        (void *(*)(void *, const void *, const void *, const void *,
                   void **))ep_api[CREATE_EP_DEVICE];
    *number = 0;
    for (int kind = 0; kind < KINDS && *number < most; kind++) {
        void *failed = NULL;
        if (!hardware[kind])
            failed = hardware_device(kind, VENDOR, (uint32_t)kind, "nobody", NULL, &hardware[kind]);
        if (!failed)
            failed = ep_device(self, hardware[kind], NULL, NULL, &found[*number]);
        if (failed)
            return failed;
        (*number)++;
    }
    return NULL;
}

static void *no_capability(void *self, const void *graph, void *support)
{
    (void)self, (void)graph, (void)support;
    return NULL;
}

static void *create_ep(void *self, const void *const *devices, const void *const *metadata,
                       size_t count, const void *options, const void *logger, void **ep)
{
    (void)self, (void)devices, (void)metadata, (void)count, (void)options, (void)logger;
    struct provider *made = calloc(1, sizeof *made);
    if (!made)
        return status(1, "no memory");
    memcpy(made->slot, &provider_version, sizeof provider_version);
    made->slot[1] = (void *)get_name;
    made->slot[2] = (void *)no_capability;
    *ep = made;
    return NULL;
}

static void release_ep(void *self, void *ep)
{
    (void)self;
    free(ep);
}

static void *no_data_transfer(void *self, void **made)
{
    (void)self;
    *made = NULL;
    return NULL;
}

static int is_stream_aware(const void *self)
{
    (void)self;
    return 0;
}

static int verdict(const char *word)
{
    static const char *const words[] = {"unknown", "optimal", "recompile", "unsupported", "error"};
    for (int i = 0; i <= FAIL; i++)
        if (!strncmp(word, words[i], strlen(words[i])))
            return i;
    return UNKNOWN;
}

static void *validate(void *self, const void *const *devices, size_t count, const char *text,
                      int *answer)
{
    (void)self;
    int (*type)(const void *) = (int (*)(const void *))api[DEVICE_TYPE];
    const char *word = text;
    if (!strncmp(text, "count:", 6)) {
        *answer = (size_t)atoi(text + 6) == count ? OPTIMAL : UNSUPPORTED;
        return NULL;
    }
    if (strchr(text, ':')) {
        char key[8];
        snprintf(key, sizeof key, "%s:", count ? kinds[type(devices[0])] : "none");
        word = strstr(text, key);
        word = word ? word + strlen(key) : "unknown";
    }
    int said = verdict(word);
    if (said == FAIL)
        return status(1, "asked to fail");
    *answer = said;
    return NULL;
}

void *CreateEpFactories(const char *name, const struct api_base *base, const void *logger,
                        void **factories, size_t most, size_t *count)
{
    (void)logger;
    snprintf(own_name, sizeof own_name, "%s", name);
    if (most < 1)
        return NULL;
    api = base->get_api(OLDEST);
    ep_api = ((void *const *(*)(void))api[GET_EP_API])();
    struct factory *made = calloc(1, sizeof *made);
    if (!made)
        return status(1, "no memory");
    memcpy(made->slot, &factory_version, sizeof factory_version);
    made->slot[1] = (void *)get_name;
    made->slot[2] = (void *)get_vendor;
    made->slot[3] = (void *)get_supported_devices;
    made->slot[4] = (void *)create_ep;
    made->slot[5] = (void *)release_ep;
    made->slot[6] = (void *)get_vendor_id;
    made->slot[7] = (void *)get_version;
    made->slot[8] = (void *)validate;
    made->slot[11] = (void *)no_data_transfer;
    made->slot[12] = (void *)is_stream_aware;
    factories[0] = made;
    *count = 1;
    return NULL;
}

void *ReleaseEpFactory(void *factory)
{
    free(factory);
    return NULL;
}
