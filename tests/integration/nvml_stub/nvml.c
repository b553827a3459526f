/* A stand-in for NVIDIA's libnvidia-ml.so.1, for tests of real pynvml on machines without a GPU.
 * It says what the text file $NVML_STUB_CONF (else /run/nvml-stub.conf) says, read at every call:
 *   driver 580.95.05
 *   gpu UUID TOTAL_BYTES USED_BYTES NAME...
 *   process GPU_INDEX PID BYTES
 *   fail RETURN_CODE            every call but nvmlErrorString returns it
 * Without the file, nvmlInit says that the driver is not loaded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, NO_DRIVER = 9 };
enum { MOST = 64 };

typedef unsigned long long bytes;
typedef struct { char uuid[96], name[96]; bytes total, used; } gpu;
typedef struct { unsigned gpu, pid; bytes memory; } process;
typedef struct { bytes total, free, used; } memory_v1;
typedef struct { unsigned version; bytes total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; bytes memory; unsigned gpu_instance, compute_instance; } process_v2;

static gpu gpus[MOST];
static process processes[MOST];
static unsigned gpu_count, process_count;
static char driver[80];

static int load(void) {
    const char *path = getenv("NVML_STUB_CONF");
    FILE *file = fopen(path ? path : "/run/nvml-stub.conf", "r");
    char line[512];
    int failure = SUCCESS;
    if (!file)
        return NO_DRIVER;
    gpu_count = process_count = 0;
    strcpy(driver, "0");
    while (fgets(line, sizeof line, file)) {
        gpu *g = &gpus[gpu_count];
        process *p = &processes[process_count];
        sscanf(line, "driver %79s", driver);
        sscanf(line, "fail %d", &failure);
        if (gpu_count < MOST &&
            sscanf(line, "gpu %95s %llu %llu %95[^\n]", g->uuid, &g->total, &g->used, g->name) == 4)
            gpu_count++;
        if (process_count < MOST &&
            sscanf(line, "process %u %u %llu", &p->gpu, &p->pid, &p->memory) == 3)
            process_count++;
    }
    fclose(file);
    return failure;
}

static int text(char *target, unsigned size, const char *source) {
    if (strlen(source) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(target, source);
    return SUCCESS;
}

int nvmlInit_v2(void) { return load(); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return load(); }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *target, unsigned size) {
    int failure = load();
    return failure ? failure : text(target, size, driver);
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    int failure = load();
    *count = gpu_count;
    return failure;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu **handle) {
    int failure = load();
    if (failure)
        return failure;
    if (index >= gpu_count)
        return INVALID_ARGUMENT;
    *handle = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetIndex(gpu *handle, unsigned *index) {
    *index = (unsigned)(handle - gpus);
    return SUCCESS;
}

int nvmlDeviceGetName(gpu *handle, char *target, unsigned size) {
    int failure = load();
    return failure ? failure : text(target, size, handle->name);
}

int nvmlDeviceGetUUID(gpu *handle, char *target, unsigned size) {
    int failure = load();
    return failure ? failure : text(target, size, handle->uuid);
}

int nvmlDeviceGetMemoryInfo(gpu *handle, memory_v1 *memory) {
    int failure = load();
    *memory = (memory_v1){handle->total, handle->total - handle->used, handle->used};
    return failure;
}

int nvmlDeviceGetMemoryInfo_v2(gpu *handle, memory_v2 *memory) {
    int failure = load();
    unsigned version = memory->version;
    *memory = (memory_v2){version, handle->total, 0, handle->total - handle->used, handle->used};
    return failure;
}

int nvmlDeviceGetComputeRunningProcesses_v2(gpu *handle, unsigned *count, process_v2 *found) {
    int failure = load();
    unsigned room = *count, wanted = 0;
    if (failure)
        return failure;
    for (unsigned i = 0; i < process_count; i++) {
        if (processes[i].gpu != (unsigned)(handle - gpus))
            continue;
        if (wanted < room)
            found[wanted] = (process_v2){processes[i].pid, processes[i].memory, ~0u, ~0u};
        wanted++;
    }
    *count = wanted;
    return wanted > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(gpu *handle, unsigned *count, process_v2 *found) {
    return nvmlDeviceGetComputeRunningProcesses_v2(handle, count, found);
}

const char *nvmlErrorString(int code) {
    return code == NO_DRIVER ? "Driver Not Loaded" : code ? "Unknown Error" : "Success";
}
