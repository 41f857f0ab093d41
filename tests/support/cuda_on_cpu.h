// Stands in for CUDA, so that `sgd.cu` compiles with a C++ compiler and runs without a GPU.
//
// The threads of a block are fibers of one thread. A fiber runs until it waits: for its block (__syncthreads) or for its
// warp (__syncwarp, shuffles, votes, tensor cores). Then another that is ready runs: the first, the last or a random
// one, by `schedule`. So code without a barrier where it needs one gives different results for different schedules.
// Barriers that only some threads reach end the process with a message. Shared memory begins as NaN and is followed by
// a page that cannot be touched. Copies to shared memory fill it with NaN when they begin, and copy when they are waited
// for.

#pragma once

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace cuda_on_cpu {

constexpr int LANES = 32;
constexpr size_t STACK = 128 * 1024;

struct Index {
    unsigned x = 0;
};

struct Fiber {
    ucontext_t start;
    jmp_buf state;
    bool begun = false;
    std::vector<unsigned char> stack;
};

struct Gate {  // threads wait here until all have come
    std::vector<int> waiting;
    unsigned char slots[2][LANES][16];  // what the lanes of a warp exchange; two, since the next exchange may begin
    unsigned generation = 0;
};

struct Copy {
    void *to;
    const void *from;
    size_t bytes;
};

struct Arrival {  // the barrier of a stage
    unsigned phase = 0;
    bool is_expected = false;
    size_t expected = 0;
    std::vector<Copy> pending;
};

inline Index thread_index, block_index;
inline std::vector<Fiber> fibers;
inline std::vector<int> ready;
inline std::vector<Gate> warps;
inline Gate whole_block;
inline std::map<void *, Arrival> arrivals;
inline jmp_buf scheduler;
inline unsigned char *shared_memory = nullptr;
inline int alive = 0;
inline unsigned schedule = 0, random_state = 1;
inline void (*entry)(const void *) = nullptr;
inline const void *argument = nullptr;

[[noreturn]] inline void fail(const char *message) {
    std::fprintf(stderr, "cuda_on_cpu: %s (block %u, thread %u)\n", message, block_index.x, thread_index.x);
    std::abort();
}

__attribute__((noinline)) inline void pause_fiber() {
    int self = static_cast<int>(thread_index.x);
    if (_setjmp(fibers[self].state) == 0) _longjmp(scheduler, 1);
}

inline void wait_at(Gate &gate, int size) {
    gate.waiting.push_back(static_cast<int>(thread_index.x));
    if (static_cast<int>(gate.waiting.size()) == size) {
        gate.generation++;
        ready.insert(ready.end(), gate.waiting.begin(), gate.waiting.end());
        gate.waiting.clear();
    }
    pause_fiber();
}

inline int lane() { return static_cast<int>(thread_index.x % LANES); }
inline Gate &own_warp() { return warps[thread_index.x / LANES]; }

// All lanes give a value; afterwards each can see those of all others.
template <typename T>
unsigned char (*exchange(T value))[16] {
    static_assert(sizeof(T) <= 16);
    Gate &gate = own_warp();
    unsigned char (*slots)[16] = gate.slots[gate.generation & 1];
    std::memcpy(slots[lane()], &value, sizeof(T));
    wait_at(gate, LANES);
    return slots;
}

template <typename T>
T from_lane(unsigned char (*slots)[16], int source) {
    T value;
    std::memcpy(&value, slots[source], sizeof(T));
    return value;
}

inline void fiber_main() {
    entry(argument);
    alive--;
    _longjmp(scheduler, 1);
}

inline int next_ready() {
    size_t at = 0;
    if (schedule == 1) at = ready.size() - 1;
    if (schedule > 1) {
        random_state = random_state * 1664525u + 1013904223u;
        at = (random_state >> 8) % ready.size();
    }
    int chosen = ready[at];
    ready.erase(ready.begin() + static_cast<long>(at));
    return chosen;
}

__attribute__((noinline)) inline void run_block(int threads) {
    ready.clear();
    arrivals.clear();
    warps.assign(threads / LANES, Gate());
    whole_block = Gate();
    alive = threads;
    for (int t = 0; t < threads; t++) {
        fibers[t].begun = false;
        ready.push_back(t);
    }
    _setjmp(scheduler);  // fibers come back to here
    if (ready.empty()) {
        if (alive > 0) fail("some threads wait at a barrier that others never reach");
        return;
    }
    int chosen = next_ready();
    thread_index.x = static_cast<unsigned>(chosen);
    Fiber &fiber = fibers[chosen];
    if (fiber.begun) _longjmp(fiber.state, 1);
    fiber.begun = true;
    getcontext(&fiber.start);
    fiber.stack.resize(STACK);
    fiber.start.uc_stack.ss_sp = fiber.stack.data();
    fiber.start.uc_stack.ss_size = STACK;
    fiber.start.uc_link = nullptr;
    makecontext(&fiber.start, fiber_main, 0);
    setcontext(&fiber.start);
}

inline void launch(void (*kernel)(const void *), int blocks, int threads, size_t shared, const void *arg, unsigned order) {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), room = (shared + page - 1) / page * page;
    void *mapped = mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED || shared % 16 != 0) fail("no shared memory of this size");
    unsigned char *base = static_cast<unsigned char *>(mapped);
    mprotect(base + room, page, PROT_NONE);
    shared_memory = base + room - shared;
    fibers.resize(threads);
    entry = kernel;
    argument = arg;
    schedule = order;
    random_state = order;
    for (int b = 0; b < blocks; b++) {
        block_index.x = static_cast<unsigned>(b);
        std::memset(shared_memory, 0xff, shared);
        run_block(threads);
    }
    munmap(mapped, room + page);
}

}  // namespace cuda_on_cpu

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define DYNAMIC_SHARED(name) unsigned char *name = cuda_on_cpu::shared_memory
#define threadIdx cuda_on_cpu::thread_index
#define blockIdx cuda_on_cpu::block_index

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};

template <typename T>
T min(T a, T b) {
    return b < a ? b : a;
}
template <typename T>
T max(T a, T b) {
    return a < b ? b : a;
}

inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned __float_as_uint(float x) {
    unsigned bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}

inline void __syncthreads() { cuda_on_cpu::wait_at(cuda_on_cpu::whole_block, static_cast<int>(cuda_on_cpu::fibers.size())); }
inline void __syncwarp() { cuda_on_cpu::wait_at(cuda_on_cpu::own_warp(), cuda_on_cpu::LANES); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int apart) {
    return cuda_on_cpu::from_lane<T>(cuda_on_cpu::exchange(value), cuda_on_cpu::lane() ^ apart);
}
template <typename T>
T __shfl_sync(unsigned, T value, int source) {
    return cuda_on_cpu::from_lane<T>(cuda_on_cpu::exchange(value), source);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, int apart) {
    int lane = cuda_on_cpu::lane();
    return cuda_on_cpu::from_lane<T>(cuda_on_cpu::exchange(value), lane < apart ? lane : lane - apart);
}
template <typename T>
T __shfl_down_sync(unsigned, T value, int apart) {
    int lane = cuda_on_cpu::lane();
    return cuda_on_cpu::from_lane<T>(cuda_on_cpu::exchange(value), lane + apart > 31 ? lane : lane + apart);
}
inline unsigned __ballot_sync(unsigned, bool vote) {
    unsigned char (*slots)[16] = cuda_on_cpu::exchange(vote);
    unsigned votes = 0;
    for (int i = 0; i < cuda_on_cpu::LANES; i++) votes |= static_cast<unsigned>(cuda_on_cpu::from_lane<bool>(slots, i)) << i;
    return votes;
}
inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }

// mma.m16n8k4 in double precision, with the layout of the PTX manual
inline void multiply_add(double (&c)[4], double a0, double a1, double b) {
    struct Two {
        double a0, a1;
    };
    unsigned char (*of_a)[16] = cuda_on_cpu::exchange(Two{a0, a1});
    Two rows[4];
    int row = cuda_on_cpu::lane() / 4, column = 2 * (cuda_on_cpu::lane() % 4);
    for (int k = 0; k < 4; k++) rows[k] = cuda_on_cpu::from_lane<Two>(of_a, 4 * row + k);
    unsigned char (*of_b)[16] = cuda_on_cpu::exchange(b);
    for (int k = 0; k < 4; k++) {
        for (int j = 0; j < 2; j++) {
            double factor = cuda_on_cpu::from_lane<double>(of_b, 4 * (column + j) + k);
            c[j] = std::fma(rows[k].a0, factor, c[j]);
            c[2 + j] = std::fma(rows[k].a1, factor, c[2 + j]);
        }
    }
}

inline void copies_begin(unsigned long long *barrier) { cuda_on_cpu::arrivals[barrier] = cuda_on_cpu::Arrival(); }

inline void copies_expect(unsigned long long *barrier, int bytes) {
    if (threadIdx.x != 0) return;
    cuda_on_cpu::Arrival &arrival = cuda_on_cpu::arrivals.at(barrier);
    if (arrival.is_expected) cuda_on_cpu::fail("a stage is filled that has not been waited for");
    arrival.is_expected = true;
    arrival.expected = static_cast<size_t>(bytes);
}

inline void copy_ahead(void *to, const void *from, int bytes, unsigned long long *barrier) {
    if (threadIdx.x != 0 || bytes == 0) return;
    if (reinterpret_cast<uintptr_t>(to) % 16 || reinterpret_cast<uintptr_t>(from) % 16 || bytes % 16) {
        cuda_on_cpu::fail("a copy that is not aligned to 16 bytes");
    }
    std::memset(to, 0xff, static_cast<size_t>(bytes));
    cuda_on_cpu::arrivals.at(barrier).pending.push_back({to, from, static_cast<size_t>(bytes)});
}

inline void copies_commit() {}

inline void copies_wait(unsigned long long *barrier, int parity, int) {
    cuda_on_cpu::Arrival &arrival = cuda_on_cpu::arrivals.at(barrier);
    for (int spins = 0; !arrival.is_expected || static_cast<int>(arrival.phase & 1u) != parity; spins++) {
        if (static_cast<int>(arrival.phase & 1u) != parity) return;  // another thread was here before
        if (spins > 100000) cuda_on_cpu::fail("a wait for copies that never begin");
        // all others go first, whichever end of the list is next
        std::vector<int> &ready = cuda_on_cpu::ready;
        ready.insert(cuda_on_cpu::schedule == 1 ? ready.begin() : ready.end(), static_cast<int>(threadIdx.x));
        cuda_on_cpu::pause_fiber();
    }
    size_t bytes = 0;
    for (const cuda_on_cpu::Copy &copy : arrival.pending) {
        std::memcpy(copy.to, copy.from, copy.bytes);
        bytes += copy.bytes;
    }
    if (bytes != arrival.expected) cuda_on_cpu::fail("other copies than were announced");
    arrival.pending.clear();
    arrival.is_expected = false;
    arrival.phase++;
}
