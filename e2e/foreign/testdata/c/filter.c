// A filter in C with WASI's libc, on the bare ABI: it counts the calls of each tenant in shared data, over all workers, and answers
// /denied itself.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMPORT(name) __attribute__((import_module("env"), import_name(#name))) uint32_t name
#define EXPORT(name) __attribute__((export_name(#name))) name

IMPORT(proxy_log)(uint32_t level, const char *text, size_t size);
IMPORT(proxy_get_buffer_bytes)(uint32_t kind, uint32_t from, uint32_t most, char **data, size_t *size);
IMPORT(proxy_get_header_map_value)(uint32_t map, const char *name, size_t name_size, char **value, size_t *size);
IMPORT(proxy_add_header_map_value)(uint32_t map, const char *name, size_t name_size, const char *value, size_t size);
IMPORT(proxy_get_shared_data)(const char *key, size_t key_size, char **value, size_t *size, uint32_t *cas);
IMPORT(proxy_set_shared_data)(const char *key, size_t key_size, const char *value, size_t size, uint32_t cas);
IMPORT(proxy_send_local_response)(uint32_t status, const char *details, size_t details_size, const char *body, size_t body_size,
                                  const char *headers, size_t headers_size, int32_t grpc);

enum { OK = 0, NOT_FOUND = 1, REQUEST = 0, RESPONSE = 2, CONFIGURATION = 7, INFO = 2, CONTINUE = 0, PAUSE = 1 };

static char *tenant_header;
static char tenants[4096][64]; // of the open streams, by their ids

static char *copy(char *data, size_t size) {
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = 0;
  free(data);
  return text;
}

static char *header(uint32_t map, const char *name) {
  char *data = NULL;
  size_t size = 0;
  if (proxy_get_header_map_value(map, name, strlen(name), &data, &size) != OK) return NULL;
  return copy(data, size);
}

static void add(uint32_t map, const char *name, const char *value) {
  proxy_add_header_map_value(map, name, strlen(name), value, strlen(value));
}

// count tries again whenever another worker was quicker.
static unsigned count(const char *tenant) {
  for (;;) {
    char *data = NULL;
    size_t size = 0;
    uint32_t cas = UINT32_MAX; // creates the key, and fails where another has
    unsigned n = 1;
    if (proxy_get_shared_data(tenant, strlen(tenant), &data, &size, &cas) == OK) {
      char *old = copy(data, size);
      n += (unsigned)strtoul(old, NULL, 10);
      free(old);
    } else {
      cas = UINT32_MAX;
    }
    char value[16];
    int length = snprintf(value, sizeof value, "%u", n);
    if (proxy_set_shared_data(tenant, strlen(tenant), value, (size_t)length, cas) == OK) return n;
  }
}

void EXPORT(proxy_abi_version_0_2_1)(void) {}

void *EXPORT(proxy_on_memory_allocate)(size_t size) { return malloc(size); }

void EXPORT(proxy_on_context_create)(uint32_t context, uint32_t root) {}

uint32_t EXPORT(proxy_on_vm_start)(uint32_t context, size_t size) { return 1; }

uint32_t EXPORT(proxy_on_configure)(uint32_t context, size_t size) {
  char *data = NULL;
  if (size == 0 || proxy_get_buffer_bytes(CONFIGURATION, 0, (uint32_t)size, &data, &size) != OK) return 0;
  tenant_header = copy(data, size);
  printf("tenants come from %s\n", tenant_header);
  fflush(stdout);
  return 1;
}

uint32_t EXPORT(proxy_on_request_headers)(uint32_t context, uint32_t count, uint32_t end) {
  char *path = header(REQUEST, ":path"), *tenant = header(REQUEST, tenant_header);
  int denied = path && strcmp(path, "/denied") == 0;
  snprintf(tenants[context % 4096], sizeof tenants[0], "%s", tenant ? tenant : "nobody");
  free(path);
  free(tenant);
  if (!denied) return CONTINUE;
  proxy_send_local_response(403, NULL, 0, "no", 2, NULL, 0, -1);
  return PAUSE;
}

uint32_t EXPORT(proxy_on_response_headers)(uint32_t context, uint32_t headers, uint32_t end) {
  const char *tenant = tenants[context % 4096];
  char line[128];
  int length = snprintf(line, sizeof line, "a call of %s", tenant);
  proxy_log(INFO, line, (size_t)length);
  snprintf(line, sizeof line, "%u of %s", count(tenant), tenant);
  add(RESPONSE, "x-calls", line);
  add(RESPONSE, "x-by", "c");
  return CONTINUE;
}
