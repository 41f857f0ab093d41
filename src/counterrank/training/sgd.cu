// Stochastic gradient descent and validation metrics of many linear rankers at once; `gpu.py` launches it.
//
// One thread block trains GROUP rankers that see the queries in the same order. For each query it computes
//
//     s = X' w      for all of its rankers, in double precision (tensor cores),       X' = X * inverse + shift
//     g = dL / ds   one warp per ranker: rank, loss and slopes,
//     w <- w - step * X'^T g,
//
// while the rows of the next queries are copied to shared memory. Scores are stored as two floats each, high + low: 48
// bits, so that documents are ranked as in double precision and close scores have exact differences. Slopes are floats.
// All sums have a fixed order that depends on nothing but the ranker's own data, and no two threads add to one number.
//
// The source compiles with NVRTC and nvcc, for compute capability 8.0 and later, and for the CPU, with a header that
// stands in for the threads (tests/support/cuda_on_cpu.h). It includes nothing else.

#ifdef __CUDACC__
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#else
#include "cuda_on_cpu.h"
#endif

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

constexpr int WARPS = 8;
constexpr int THREADS = 32 * WARPS;
constexpr u32 ALL = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LN2 = 0.6931471805599453f;

// ---------------------------------------------------------------------------------------------------------------------
// What the host passes. gpu.py has the same layouts.

enum Family { BY_DISTANCE = 0, BY_DIFFERENCE = 1, HINGE = 2, LOGISTIC = 3 };
enum Alpha { ARP = 0, DCG = 1 };

// A number as the sum of two floats: 48 bits.
struct alignas(8) Split {
    float high, low;
};

// A query in the order of a block.
struct alignas(16) Step {
    i64 start;  // its first document
    int n;      // its documents
    int query;
};

struct Block {
    i64 first;    // of its steps
    i64 n_steps;
};

// One ranker. Without displayed sets the pointers to them are null. A place of a block without ranker has no weights.
struct Member {
    const void *weights;     // training: float; metric: double. By document, or by entry of the sets
    const void *table;       // training: Split, `Parameters.table`; metric: double, prefix sums of the values by rank
    const unsigned char *used;  // by query: whether it is learned from
    double *sums;            // of the gradients of a batch so far, (pitch,)
    double *norms;           // by query: gets the norm of its gradient, and no step is taken; else null
    double *out;             // training: the sum of losses; metric: by query
    const i64 *set_of_query;  // sets[set_of_query[q]:set_of_query[q + 1]] are those of query q
    const i64 *set_offsets;  // their entries
    const int *set_places;   // by entry: the document, as its place in the query
    const i64 *doc_offsets;  // by document: its range of doc_entries
    const int *doc_entries;  // the entries of a document, counted from the first entry of its query
    float *entry_slopes;     // scratch, for the entries of one query
    int *entry_ranks;
    double step;
    float level_at_k;
    int family, alpha, k, band, batch, n_used;
};

struct Launch {
    const float *features;  // (documents, pitch), zeros beyond the features
    const double *scales;   // (queries or 1, 2, pitch): inverse and shift
    const Step *steps;
    const Block *blocks;
    const Member *members;  // GROUP for each block
    double *coefficients;   // (GROUP * blocks, pitch + 2)
    unsigned char *scratch;  // for queries beyond `capacity`
    i64 scratch_bytes;      // of each block
    int pitch;
    int scales_shared;
    int capacity;  // the most documents of a query that is kept in shared memory
    int longest;
    int stages;  // queries in shared memory at a time
    int unused;
};

// ---------------------------------------------------------------------------------------------------------------------
// Instructions without a name in CUDA C++.

#ifdef __CUDACC__

__device__ __forceinline__ u32 shared_address(const void *pointer) {
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// c += a b on the tensor cores: a is 16 x 4 (rows lane / 4 and lane / 4 + 8, column lane % 4), b is 4 x 8 (row lane % 4,
// column lane / 4), c is 16 x 8 (rows as a, columns 2 (lane % 4) and the next).
__device__ __forceinline__ void multiply_add(double (&c)[4], double a0, double a1, double b) {
#if __CUDA_ARCH__ == 900
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a0), "d"(a1), "d"(b));
#else
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[0]), "+d"(c[1])
        : "d"(a0), "d"(b));
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[2]), "+d"(c[3])
        : "d"(a1), "d"(b));
#endif
}

#if __CUDA_ARCH__ >= 900

// Copies to shared memory by the copy engine; a barrier per stage counts the bytes that arrive.
__device__ __forceinline__ void copies_begin(u64 *barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void copies_expect(u64 *barrier, int bytes) {
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                     : "memory");
    }
}

__device__ __forceinline__ void copy_ahead(void *to, const void *from, int bytes, u64 *barrier) {
    if (threadIdx.x == 0 && bytes > 0) {
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                shared_address(to)),
            "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
            : "memory");
    }
}

__device__ __forceinline__ void copies_commit() {}

__device__ __forceinline__ void copies_wait(u64 *barrier, int parity, int) {
    u32 done = 0;
    while (!done) {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done)
            : "r"(shared_address(barrier)), "r"(parity)
            : "memory");
    }
}

#else

__device__ __forceinline__ void copies_begin(u64 *) {}
__device__ __forceinline__ void copies_expect(u64 *, int) {}

__device__ __forceinline__ void copy_ahead(void *to, const void *from, int bytes, u64 *) {
    for (int at = 16 * threadIdx.x; at < bytes; at += 16 * THREADS) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         shared_address(static_cast<unsigned char *>(to) + at)),
                     "l"(__cvta_generic_to_global(static_cast<const unsigned char *>(from) + at))
                     : "memory");
    }
}

__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

__device__ __forceinline__ void copies_wait(u64 *, int, int stages) {
    if (stages == 1) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
    } else {  // stages beyond two are waited for earlier than they need to be
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    }
    __syncthreads();
}

#endif
#endif

// ---------------------------------------------------------------------------------------------------------------------
// Numbers.

__device__ __forceinline__ Split split(double x) {
    Split s;
    s.high = static_cast<float>(x) + 0.0f;  // -0 becomes 0: both rank alike
    s.low = static_cast<float>(x - static_cast<double>(s.high)) + 0.0f;
    return s;
}

__device__ __forceinline__ double value_of(Split s) {
    return static_cast<double>(s.high) + static_cast<double>(s.low);
}

// a - b
__device__ __forceinline__ float difference(Split a, Split b) { return (a.high - b.high) + (a.low - b.low); }

// 1 - (a - b) > 0, with the rounding error of the difference of the high parts
__device__ __forceinline__ bool is_within_one(Split a, Split b) {
    float apart = a.high - b.high;
    float part = apart - a.high;
    float lost = (a.high - (apart - part)) - (b.high + part);
    return (apart - 1.0f) + (lost + (a.low - b.low)) < 0.0f;
}

__device__ __forceinline__ bool is_equal(Split a, Split b) { return a.high == b.high && a.low == b.low; }

// The bits of a float as a number that sorts as floats do, NaN beyond both ends.
__device__ __forceinline__ u32 sortable(float x) {
    u32 bits = __float_as_uint(x);
    return bits ^ ((bits >> 31) ? 0xffffffffu : 0x80000000u);
}

__device__ __forceinline__ u64 sortable(Split s) {
    return (static_cast<u64>(sortable(s.high)) << 32) | sortable(s.low);
}

// Whether document i ranks above document j: a higher score, or an equal one and an earlier place. A total order, even
// of scores that are not numbers.
__device__ __forceinline__ bool is_above(const Split *scores, int i, int j) {
    u64 a = sortable(scores[i]), b = sortable(scores[j]);
    return a > b || (a == b && i < j);
}

// ln(1 + t) and 1 / (1 + t) for 0 <= t <= 1: ln(1 + t) = 2 atanh(z), z = t / (2 + t), by a polynomial in z^2 on
// [0, 1/9] with a relative error of 4e-9.
__device__ __forceinline__ void log1p_and_inverse(float t, float &log_part, float &inverse) {
    float shared = __fdividef(1.0f, (1.0f + t) * (2.0f + t));
    inverse = shared * (2.0f + t);
    float z = t * (shared * (1.0f + t));
    float square = z * z;
    float p = 0.14087329f;
    p = p * square + 0.13980709f;
    p = p * square + 0.20012427f;
    p = p * square + 0.33333158f;
    p = p * square + 1.0f;
    log_part = 2.0f * z * p;
}

template <typename T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(ALL, x, apart);
    return x;
}

// The sums over the warp of four numbers, each in eight lanes: lane / 8 says which.
__device__ __forceinline__ float warp_sum_of_four(const float (&x)[4], int lane) {
    bool upper = lane & 16, odd = lane & 8;
    float a = (upper ? x[2] : x[0]) + __shfl_xor_sync(ALL, upper ? x[0] : x[2], 16);
    float b = (upper ? x[3] : x[1]) + __shfl_xor_sync(ALL, upper ? x[1] : x[3], 16);
    float sum = (odd ? b : a) + __shfl_xor_sync(ALL, odd ? a : b, 8);
#pragma unroll
    for (int apart = 4; apart > 0; apart /= 2) sum += __shfl_xor_sync(ALL, sum, apart);
    return sum;
}

// The sum over this lane and those before it.
__device__ __forceinline__ double warp_prefix(double x, int lane) {
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
        double before = __shfl_up_sync(ALL, x, apart);
        if (lane >= apart) x += before;
    }
    return x;
}

// ---------------------------------------------------------------------------------------------------------------------
// Ranking, by one warp.

// Scratch of a warp, for one query.
struct Room {
    int *order;
    float *weights;
    float *gradient;
    double *extra;
};

__device__ __forceinline__ Room room_at(unsigned char *memory, int n) {
    Room room;
    room.extra = reinterpret_cast<double *>(memory);
    room.order = reinterpret_cast<int *>(room.extra + n);
    room.weights = reinterpret_cast<float *>(room.order + n);
    room.gradient = room.weights + n;
    return room;
}

__device__ __forceinline__ int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// Bytes of a warp's scratch, and documents from one ranker's scores to the next one's: chosen for shared memory banks.
__device__ __forceinline__ int room_bytes(int n) { return 20 * round_up(n, 4); }
__device__ __forceinline__ int score_pitch(int n) { return round_up(n, 4) + 2; }

// Put right neighbours whose scores differ only in the bits that the keys of `sort_run` leave out.
__device__ void settle(const Split *scores, int *order, int n, int lane) {
    bool moved = true;
    while (moved) {
        moved = false;
#pragma unroll 1
        for (int odd = 0; odd < 2; odd++) {
#pragma unroll 1
            for (int at = odd + 2 * lane; at + 1 < n; at += 64) {
                int a = order[at], b = order[at + 1];
                if (is_above(scores, b, a)) {
                    order[at] = b;
                    order[at + 1] = a;
                    moved = true;
                }
            }
            __syncwarp();
        }
        moved = __any_sync(ALL, moved);
    }
}

// order[0:n] = first + the places of n <= 32 SIZE documents by rank: a bitonic sort in registers. A key has the score in
// its upper bits and the place in the lowest seven.
template <int SIZE>
__device__ void sort_run(const Split *scores, int first, int n, int *order, int lane) {
    u64 key[SIZE];
#pragma unroll
    for (int t = 0; t < SIZE; t++) {
        int place = 32 * t + lane;
        u64 upper = place < n ? sortable(scores[first + place]) : 0;
        key[t] = (upper & ~u64(127)) | u64(127 - place);
    }
#pragma unroll
    for (int size = 2; size <= 32 * SIZE; size *= 2) {
#pragma unroll
        for (int apart = size / 2; apart > 0; apart /= 2) {
            if (apart >= SIZE) {
                bool is_first = (lane & (apart / SIZE)) == 0;
#pragma unroll
                for (int t = 0; t < SIZE; t++) {
                    u64 other = __shfl_xor_sync(ALL, key[t], apart / SIZE);
                    bool falling = ((lane * SIZE + t) & size) == 0;
                    bool larger = other > key[t];
                    key[t] = (larger == (falling == is_first)) ? other : key[t];
                }
            } else {
#pragma unroll
                for (int t = 0; t < SIZE; t++) {
                    if ((t & apart) == 0) {
                        bool falling = ((lane * SIZE + t) & size) == 0;
                        u64 a = key[t], b = key[t + apart];
                        bool swap = (b > a) == falling;
                        key[t] = swap ? b : a;
                        key[t + apart] = swap ? a : b;
                    }
                }
            }
        }
    }
    u64 next = __shfl_down_sync(ALL, key[0], 1);
    bool close = false;
#pragma unroll
    for (int t = 0; t < SIZE; t++) {
        u64 after = t + 1 < SIZE ? key[t + 1 < SIZE ? t + 1 : t] : next;
        int at = lane * SIZE + t;
        if (at < n) order[at] = first + 127 - static_cast<int>(key[t] & 127);
        close = close || (at + 1 < n && (after >> 7) == (key[t] >> 7));
    }
    close = __any_sync(ALL, close);
    __syncwarp();
    if (close) settle(scores, order, n, lane);
}

// How many of the sorted documents rank above document i.
__device__ int count_above(const Split *scores, const int *order, int n, int i) {
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (is_above(scores, order[middle], i)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// room.order = the documents by rank: a higher score first, equal scores in document order.
__device__ void rank_documents(const Split *scores, int n, Room room, int lane) {
    if (n <= 32) {
        sort_run<1>(scores, 0, n, room.order, lane);
    } else {
        for (int first = 0; first < n; first += 128) {
            sort_run<4>(scores, first, min(128, n - first), room.order + first, lane);
        }
    }
    if (n <= 128) return;
    int *merged = reinterpret_cast<int *>(room.extra);
#pragma unroll 1
    for (int at = lane; at < n; at += 32) {
        int doc = room.order[at], rank = at % 128;
#pragma unroll 1
        for (int first = 0; first < n; first += 128) {
            if (first != at / 128 * 128) {
                rank += count_above(scores, room.order + first, min(128, n - first), doc);
            }
        }
        merged[rank] = doc;
    }
    __syncwarp();
#pragma unroll 1
    for (int at = lane; at < n; at += 32) room.order[at] = merged[at];
    __syncwarp();
}

// scores[p] = the score of the document at rank p + 1.
__device__ void order_scores(Split *scores, int n, Room room, int lane) {
    Split *ranked = reinterpret_cast<Split *>(room.extra);
    for (int p = lane; p < n; p += 32) ranked[p] = scores[room.order[p]];
    __syncwarp();
    for (int p = lane; p < n; p += 32) scores[p] = ranked[p];
    __syncwarp();
}

// Rank the documents, and put weights and scores in rank order. The first weights are loaded before the sort, so that
// they arrive during it.
__device__ void rank_and_order(Split *scores, const float *weights, int n, Room room, int lane) {
    float early[4];
#pragma unroll
    for (int t = 0; t < 4; t++) early[t] = 32 * t + lane < n ? weights[32 * t + lane] : 0.0f;
    rank_documents(scores, n, room, lane);
#pragma unroll
    for (int t = 0; t < 4; t++) {
        if (32 * t + lane < n) room.gradient[32 * t + lane] = early[t];
    }
    for (int i = 128 + lane; i < n; i += 32) room.gradient[i] = weights[i];
    __syncwarp();
    for (int p = lane; p < n; p += 32) room.weights[p] = room.gradient[room.order[p]];
    order_scores(scores, n, room, lane);
}

// list = the places of the weights that are not 0; returns how many.
__device__ int list_weighted(const float *weights, int n, int *list, int lane) {
    int count = 0;
    for (int first = 0; first < n; first += 32) {
        bool is_weighted = first + lane < n && weights[first + lane] != 0.0f;
        u32 vote = __ballot_sync(ALL, is_weighted);
        if (is_weighted) list[count + __popc(vote & ((1u << lane) - 1u))] = first + lane;
        count += __popc(vote);
    }
    __syncwarp();
    return count;
}

// ---------------------------------------------------------------------------------------------------------------------
// Losses over pairs, losses/lambdaloss.py:
//
//     sum over pairs of factor |w_n - w_m| log2(1 + exp(s_worse - s_better)).

// Which pairs count, and for how much; a copy, since the compiler cannot know that a member does not change.
struct Factors {
    const Split *table;
    int k, band;
    bool by_distance;

    // Of documents at ranks upper < lower, from 0; 0 where the pair does not count. Without branches.
    __device__ __forceinline__ float of(int upper, int lower, bool counts) const {
        Split first = table[by_distance ? lower - upper : upper];
        float factor = by_distance ? first.high : difference(first, table[lower]);
        return counts && upper < k && lower - upper <= band ? factor : 0.0f;
    }
};

__device__ __forceinline__ Factors factors_of(const Member &member) {
    return {static_cast<const Split *>(member.table), member.k, member.band, member.family == BY_DISTANCE};
}

// Adds the loss of a pair to `value`; returns its derivative for z = s_upper - s_lower >= 0. `apart` is the upper weight
// less the lower one.
__device__ __forceinline__ float pair_slope(float z, float apart, float factor, float &value) {
    z = fmaxf(z, 0.0f);
    float t = __expf(-z), log_part, inverse;
    log1p_and_inverse(t, log_part, inverse);
    float share = factor * fabsf(apart) * LOG2_E;
    bool wrong_way = apart < 0.0f;
    value += share * (log_part + (wrong_way ? z : 0.0f));
    return share * inverse * (wrong_way ? 1.0f : -t);
}

// Pairs at most `band` ranks apart: each document with its neighbours on both sides.
__device__ float banded_pairs(const Factors &factors, const Split *scores, int n, Room room, int lane) {
    float value = 0.0f;
    for (int p = lane; p < n; p += 32) {
        Split score = scores[p];
        float weight = room.weights[p], slope = 0.0f, unused = 0.0f;
        for (int d = 1; d <= factors.band; d++) {
            if (p + d < n) {
                float factor = factors.of(p, p + d, true);
                slope += pair_slope(difference(score, scores[p + d]), weight - room.weights[p + d], factor, value);
            }
            if (p >= d) {
                float factor = factors.of(p - d, p, true);
                slope -= pair_slope(difference(scores[p - d], score), room.weights[p - d] - weight, factor, unused);
            }
        }
        room.gradient[p] = slope;
    }
    __syncwarp();
    return value;
}

// Pairs of each pivot with the documents of all lanes. Pivots are the first `n_pivots` ranks, each with those below it;
// or (`list`) all weighted documents, each with those below it and with those of weight 0 above it.
__device__ float pivot_pairs(
    const Factors &factors, const Split *scores, int n, const int *list, int n_pivots, float *own, Room room, int lane
) {
    float value = 0.0f;
    for (int i = lane; i < n_pivots; i += 32) own[i] = 0.0f;
    __syncwarp();
    for (int first = 0; first < n; first += 128) {
        Split score[4];
        float weight[4], slope[4];
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int p = first + 32 * t + lane;
            score[t] = scores[min(p, n - 1)];
            weight[t] = room.weights[min(p, n - 1)];
            slope[t] = 0.0f;
        }
        for (int i = 0; i < n_pivots; i += 4) {
            if (list == nullptr && i >= first + 127) break;
            float sums[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                sums[j] = 0.0f;
                if (i + j >= n_pivots) continue;
                int pivot = list == nullptr ? i + j : list[i + j];
                Split pivot_score = scores[pivot];
                float pivot_weight = room.weights[pivot];
#pragma unroll
                for (int t = 0; t < 4; t++) {
                    if (first + 32 * t >= n) continue;
                    int p = min(first + 32 * t + lane, n - 1);
                    bool is_below = p > pivot, is_free = list != nullptr && p < pivot && weight[t] == 0.0f;
                    bool counts = first + 32 * t + lane < n && (is_below || is_free);
                    float sign = is_below ? 1.0f : -1.0f;
                    float z = sign * difference(pivot_score, score[t]), apart = sign * (pivot_weight - weight[t]);
                    float factor = factors.of(min(p, pivot), max(p, pivot), counts);
                    float part = sign * pair_slope(z, apart, factor, value);
                    sums[j] += part;
                    slope[t] -= part;
                }
            }
            float sum = warp_sum_of_four(sums, lane);
            if (lane % 8 == 0 && i + lane / 8 < n_pivots) own[i + lane / 8] += sum;
        }
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int p = first + 32 * t + lane;
            if (p < n) room.gradient[p] = slope[t];
        }
    }
    __syncwarp();
    for (int i = lane; i < n_pivots; i += 32) room.gradient[list == nullptr ? i : list[i]] += own[i];
    __syncwarp();
    return value;
}

// The documents are in rank order.
__device__ float pairwise_query(const Member &member, Split *scores, int n, Room room, int lane) {
    int *list = reinterpret_cast<int *>(room.extra);
    float *own = reinterpret_cast<float *>(list + n);
    Factors factors = factors_of(member);
    int n_weighted = list_weighted(room.weights, n, list, lane), n_upper = min(factors.k, n);
    float value;
    if (factors.by_distance && 2 * static_cast<i64>(factors.band) < min(n_weighted, n_upper)) {
        value = banded_pairs(factors, scores, n, room, lane);
    } else {
        bool by_upper = n_upper <= n_weighted;
        value = pivot_pairs(factors, scores, n, by_upper ? nullptr : list, min(n_upper, n_weighted), own, room, lane);
    }
    float *slopes = reinterpret_cast<float *>(scores);
    for (int p = lane; p < n; p += 32) slopes[room.order[p]] = room.gradient[p];
    return value;
}

// ---------------------------------------------------------------------------------------------------------------------
// Monotonic losses, losses/monotonic.py:
//
//     sum over d of w_d ( -alpha(bound_d) + [rank_d > k] alpha(k) ).

// alpha(bound) and alpha'(bound)
__device__ __forceinline__ void alpha_of(const Member &member, float bound, float &level, float &slope) {
    if (member.alpha == ARP) {
        level = -bound;
        slope = -1.0f;
    } else {
        float log_rank = logf(1.0f + bound);
        level = LN2 / log_rank;
        slope = -LN2 / ((1.0f + bound) * log_rank * log_rank);
    }
}

// bound_i = sum over j of max(1 - (s_i - s_j), 0), documents in rank order: those that count are the first `reach`.
__device__ float hinge_query(const Member &member, Split *scores, int n, Room room, int lane) {
    int *reaches = reinterpret_cast<int *>(room.gradient);
    double *prefix = room.extra, top = value_of(scores[0]), carry = 0.0;
    for (int first = 0; first < n; first += 32) {
        int p = first + lane;
        double x = carry + warp_prefix(p < n ? value_of(scores[p]) - top : 0.0, lane);
        if (p < n) prefix[p] = x;
        carry = __shfl_sync(ALL, x, 31);
    }
    __syncwarp();
    float value = 0.0f;
    for (int p = lane; p < n; p += 32) {
        Split score = scores[p];
        int reach = p + 1, high = n;
        while (reach < high) {
            int middle = (reach + high) / 2;
            if (is_within_one(score, scores[middle])) {
                reach = middle + 1;
            } else {
                high = middle;
            }
        }
        reaches[p] = reach;
        float weight = room.weights[p], level, slope = 0.0f;
        if (weight != 0.0f) {
            double bound = reach * (1.0 - (value_of(score) - top)) + prefix[reach - 1];
            alpha_of(member, static_cast<float>(bound), level, slope);
            value -= weight * (level - (p >= member.k ? member.level_at_k : 0.0f));
            slope *= -weight;
        }
        room.weights[p] = slope;
    }
    __syncwarp();
    carry = 0.0;
    for (int first = 0; first < n; first += 32) {  // now the prefix sums of the slopes
        int p = first + lane;
        double x = carry + warp_prefix(p < n ? static_cast<double>(room.weights[p]) : 0.0, lane);
        if (p < n) prefix[p] = x;
        carry = __shfl_sync(ALL, x, 31);
    }
    __syncwarp();
    float *slopes = reinterpret_cast<float *>(scores);
    for (int p = lane; p < n; p += 32) {
        int low = 0, high = p;  // the first document whose reach holds place p
        while (low < high) {
            int middle = (low + high) / 2;
            if (reaches[middle] > p) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        double running = carry - (low > 0 ? prefix[low - 1] : 0.0);
        double own = static_cast<double>(reaches[p]) * static_cast<double>(room.weights[p]);
        slopes[room.order[p]] = static_cast<float>(running - own);
    }
    return value;
}

// log2(1 + exp(u)) / LOG2_E added to `total`; returns its derivative for u times LOG2_E.
__device__ __forceinline__ float logistic_term(float u, float &total) {
    float t = __expf(-fabsf(u)), log_part, inverse;
    log1p_and_inverse(t, log_part, inverse);
    total += log_part + fmaxf(u, 0.0f);
    return LOG2_E * inverse * (u >= 0.0f ? 1.0f : t);
}

// bound_i = sum over j of log2(1 + exp(s_j - s_i)), for each weighted document i.
__device__ float logistic_query(const Member &member, Split *scores, const float *weights, int n, Room room, int lane) {
    for (int d = lane; d < n; d += 32) {
        room.weights[d] = weights[d];
        room.gradient[d] = 0.0f;
    }
    __syncwarp();
    int n_weighted = list_weighted(room.weights, n, room.order, lane);
    float *steepness = reinterpret_cast<float *>(room.extra), value = 0.0f;
    for (int i = 0; i < n_weighted; i++) {
        int pivot = room.order[i], above = 0;
        Split score = scores[pivot];
        float total = 0.0f, level, slope, sum = 0.0f, weight = room.weights[pivot];
        for (int d = lane; d < n; d += 32) {
            steepness[d] = logistic_term(difference(scores[d], score), total);
            above += is_above(scores, d, pivot);
        }
        alpha_of(member, warp_sum(total) * LOG2_E, level, slope);
        if (member.k < n && warp_sum(above) >= member.k) level -= member.level_at_k;
        if (lane == 0) value -= weight * level;
        slope *= -weight;
        for (int d = lane; d < n; d += 32) {
            float part = slope * steepness[d];
            room.gradient[d] += part;
            sum += part;
        }
        sum = warp_sum(sum);
        if (lane == pivot % 32) room.gradient[pivot] -= sum;
    }
    __syncwarp();
    float *slopes = reinterpret_cast<float *>(scores);
    for (int d = lane; d < n; d += 32) slopes[d] = room.gradient[d];
    return value;
}

// ---------------------------------------------------------------------------------------------------------------------
// Displayed sets: small, so each lane takes a set of its own, and compares all pairs.

struct Set {
    const Split *scores;  // of the query
    const int *places;    // of the set's documents in it
    int n;

    __device__ __forceinline__ Split score(int i) const { return scores[places[i]]; }

    // How many rank above i; and how many have its score, itself included.
    __device__ __forceinline__ int rank(int i, int &tied) const {
        u64 own = sortable(score(i));
        int above = 0;
        tied = 0;
#pragma unroll 1
        for (int j = 0; j < n; j++) {
            u64 other = sortable(score(j));
            above += other > own || (other == own && j < i);
            tied += other == own;
        }
        return above;
    }
};

__device__ float pairwise_set(const Member &member, const Set &set, const float *weights, float *slopes, int *ranks) {
    Factors factors = factors_of(member);
    float value = 0.0f;
    int tied;
#pragma unroll 1
    for (int i = 0; i < set.n; i++) {
        ranks[i] = set.rank(i, tied);
        slopes[i] = 0.0f;
    }
#pragma unroll 1
    for (int i = 0; i < set.n; i++) {
        Split score = set.score(i);
        float sum = 0.0f;
#pragma unroll 1
        for (int j = i + 1; j < set.n; j++) {
            bool is_upper = ranks[i] < ranks[j];
            float sign = is_upper ? 1.0f : -1.0f;
            float z = sign * difference(score, set.score(j)), apart = sign * (weights[i] - weights[j]);
            float factor = factors.of(min(ranks[i], ranks[j]), max(ranks[i], ranks[j]), true);
            float part = sign * pair_slope(z, apart, factor, value);
            sum += part;
            slopes[j] -= part;
        }
        slopes[i] += sum;
    }
    return value;
}

__device__ float monotonic_set(const Member &member, const Set &set, const float *weights, float *slopes) {
    float value = 0.0f;
#pragma unroll 1
    for (int i = 0; i < set.n; i++) slopes[i] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < set.n; i++) {
        if (weights[i] == 0.0f) continue;
        Split score = set.score(i);
        float bound = 0.0f, level, slope, sum = 0.0f;
        int tied;
#pragma unroll 1
        for (int j = 0; j < set.n; j++) {
            if (member.family == HINGE) {
                if (is_within_one(score, set.score(j))) bound += 1.0f - difference(score, set.score(j));
            } else {
                logistic_term(difference(set.score(j), score), bound);
            }
        }
        if (member.family == LOGISTIC) bound *= LOG2_E;
        alpha_of(member, bound, level, slope);
        if (member.k < set.n && set.rank(i, tied) >= member.k) level -= member.level_at_k;
        value -= weights[i] * level;
        slope *= -weights[i];
#pragma unroll 1
        for (int j = 0; j < set.n; j++) {
            float unused = 0.0f, steepness = 0.0f;
            if (member.family == LOGISTIC) {
                steepness = logistic_term(difference(set.score(j), score), unused);
            } else if (is_within_one(score, set.score(j))) {
                steepness = 1.0f;
            }
            slopes[j] += slope * steepness;
            sum += slope * steepness;
        }
        slopes[i] -= sum;
    }
    return value;
}

// The loss of all sets of a query. The slopes of a document are summed over its sets by the whole warp: under most
// policies some documents are in every set.
__device__ float loss_of_sets(const Member &member, const Step &step, Split *scores, Room room, int lane) {
    i64 first_set = member.set_of_query[step.query], last_set = member.set_of_query[step.query + 1];
    i64 first = member.set_offsets[first_set];
    const float *weights = static_cast<const float *>(member.weights);
    float value = 0.0f;
#pragma unroll 1
    for (i64 s = first_set + lane; s < last_set; s += 32) {
        i64 entry = member.set_offsets[s];
        Set set = {scores, member.set_places + entry, static_cast<int>(member.set_offsets[s + 1] - entry)};
        float *slopes = member.entry_slopes + (entry - first);
        if (member.family == BY_DISTANCE || member.family == BY_DIFFERENCE) {
            value += pairwise_set(member, set, weights + entry, slopes, member.entry_ranks + (entry - first));
        } else {
            value += monotonic_set(member, set, weights + entry, slopes);
        }
    }
    __syncwarp();
    float *result = reinterpret_cast<float *>(scores);
#pragma unroll 1
    for (int d = 0; d < step.n; d++) {
        i64 begin = member.doc_offsets[step.start + d], end = member.doc_offsets[step.start + d + 1];
        float sum = 0.0f;
#pragma unroll 1
        for (i64 e = begin + lane; e < end; e += 32) sum += member.entry_slopes[member.doc_entries[e]];
        if (end - begin > 1) sum = warp_sum(sum);
        if (lane == 0) result[d] = sum;
    }
    return value;
}

// ---------------------------------------------------------------------------------------------------------------------
// The metric, evaluation/metric_kernels.py, `weighted_queries`: documents with equal scores share their ranks. Summed in
// document order, so that rankings of the same value have the very same sum.

__device__ double metric_query(const Member &member, Split *scores, i64 start, int n, Room room, int lane) {
    const double *weights = static_cast<const double *>(member.weights) + start;
    const double *prefix = static_cast<const double *>(member.table);
    rank_documents(scores, n, room, lane);
    order_scores(scores, n, room, lane);
    for (int p = lane; p < n; p += 32) {
        double weight = weights[room.order[p]];
        room.extra[room.order[p]] = 0.0;
        if (weight == 0.0) continue;
        Split score = scores[p];
        int begin = p, end = p + 1;
        if (p > 0 && is_equal(scores[p - 1], score)) {
            int low = 0;
            while (low < begin) {
                int middle = (low + begin) / 2;
                if (is_equal(scores[middle], score)) {
                    begin = middle;
                } else {
                    low = middle + 1;
                }
            }
        }
        if (end < n && is_equal(scores[end], score)) {
            int high = n;
            while (end < high) {
                int middle = (end + high) / 2;
                if (is_equal(scores[middle], score)) {
                    end = middle + 1;
                } else {
                    high = middle;
                }
            }
        }
        room.extra[room.order[p]] = weight * (prefix[end] - prefix[begin]) / (end - begin);
    }
    __syncwarp();
    double value = 0.0;
    for (int d = lane; d < n; d += 32) value += room.extra[d];
    return warp_sum(value);
}

__device__ double metric_of_sets(const Member &member, const Step &step, const Split *scores, int lane) {
    const double *weights = static_cast<const double *>(member.weights);
    const double *prefix = static_cast<const double *>(member.table);
    double value = 0.0;
#pragma unroll 1
    for (i64 s = member.set_of_query[step.query] + lane; s < member.set_of_query[step.query + 1]; s += 32) {
        i64 entry = member.set_offsets[s];
        Set set = {scores, member.set_places + entry, static_cast<int>(member.set_offsets[s + 1] - entry)};
#pragma unroll 1
        for (int i = 0; i < set.n; i++) {
            double weight = weights[entry + i];
            if (weight == 0.0) continue;
            u64 own = sortable(set.score(i));
            int above = 0, tied = 0;
#pragma unroll 1
            for (int j = 0; j < set.n; j++) {
                u64 other = sortable(set.score(j));
                above += other > own;
                tied += other == own;
            }
            value += weight * (prefix[above + tied] - prefix[above]) / tied;
        }
    }
    return warp_sum(value);
}

// ---------------------------------------------------------------------------------------------------------------------
// The products with the feature matrix, by the whole block.

// A query's rows and scales, in shared memory or (rows of a long query) in global memory.
struct Rows {
    const float *x;
    const double *inverse, *shift;
    int n, pitch;
};

// scores[r][d] = x'_d . w_r: each warp takes 16 documents at a time. Lane % 4 says which four of 16 features.
template <int GROUP>
__device__ __forceinline__ void score_rows(
    const Rows &rows, const double *coefficients, Split *scores, int score_pitch, int warp, int lane
) {
    int row = lane / 4, part = 4 * (lane % 4);
    for (int first = 16 * warp; first < rows.n; first += 16 * WARPS) {
        const float *upper = rows.x + static_cast<i64>(min(first + row, rows.n - 1)) * rows.pitch + part;
        const float *lower = rows.x + static_cast<i64>(min(first + row + 8, rows.n - 1)) * rows.pitch + part;
        double sums[GROUP / 8][4];
#pragma unroll
        for (int g = 0; g < GROUP / 8; g++) sums[g][0] = sums[g][1] = sums[g][2] = sums[g][3] = 0.0;
        for (int f = 0; f < rows.pitch; f += 16) {
            float4 xa = *reinterpret_cast<const float4 *>(upper + f), xb = *reinterpret_cast<const float4 *>(lower + f);
            double2 i0 = *reinterpret_cast<const double2 *>(rows.inverse + f + part);
            double2 i1 = *reinterpret_cast<const double2 *>(rows.inverse + f + part + 2);
            double2 s0 = *reinterpret_cast<const double2 *>(rows.shift + f + part);
            double2 s1 = *reinterpret_cast<const double2 *>(rows.shift + f + part + 2);
            double a[4] = {
                fma(static_cast<double>(xa.x), i0.x, s0.x), fma(static_cast<double>(xa.y), i0.y, s0.y),
                fma(static_cast<double>(xa.z), i1.x, s1.x), fma(static_cast<double>(xa.w), i1.y, s1.y)
            };
            double b[4] = {
                fma(static_cast<double>(xb.x), i0.x, s0.x), fma(static_cast<double>(xb.y), i0.y, s0.y),
                fma(static_cast<double>(xb.z), i1.x, s1.x), fma(static_cast<double>(xb.w), i1.y, s1.y)
            };
#pragma unroll
            for (int g = 0; g < GROUP / 8; g++) {
                const double *w = coefficients + (8 * g + row) * (rows.pitch + 2) + f + part;
                double2 w0 = *reinterpret_cast<const double2 *>(w), w1 = *reinterpret_cast<const double2 *>(w + 2);
                multiply_add(sums[g], a[0], b[0], w0.x);
                multiply_add(sums[g], a[1], b[1], w0.y);
                multiply_add(sums[g], a[2], b[2], w1.x);
                multiply_add(sums[g], a[3], b[3], w1.y);
            }
        }
#pragma unroll
        for (int g = 0; g < GROUP / 8; g++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int doc = first + row + 8 * (i / 2), ranker = 8 * g + 2 * (lane % 4) + i % 2;
                if (doc < rows.n) scores[ranker * score_pitch + doc] = split(sums[g][i]);
            }
        }
    }
}

// What a ranker does with the gradient of a query.
enum Action { SKIP = 0, ACTIVE = 1, IS_FIRST = 2, IS_LAST = 4 };

// w_r <- w_r - step_r sum over d of (x'_d - x'_0) g_rd: a warp takes 16 features and 8 or 16 rankers at a time. Row i of
// the tile is feature 2 i, and row i + 8 the next one. Slopes sum to 0 but for rounding, so x'_0 only matters for
// features far from 0, whose size would magnify it.
template <int GROUP>
__device__ __forceinline__ void take_step(
    const Rows &rows, const Member *members, const int *actions, double *coefficients, const Split *scores,
    int score_pitch, int warp, int lane
) {
    constexpr int TILES = GROUP >= 32 ? 2 : 1, PARTS = GROUP / 8 / TILES;
    int row = lane / 4, column = lane % 4;
    for (int unit = warp; unit < rows.pitch / 16 * PARTS; unit += WARPS) {
        int feature = 16 * (unit / PARTS) + 2 * row, ranker = 8 * TILES * (unit % PARTS);
        double2 inverse = *reinterpret_cast<const double2 *>(rows.inverse + feature);
        double2 shift = *reinterpret_cast<const double2 *>(rows.shift + feature);
        double sums[TILES][2][4], totals[TILES];
#pragma unroll
        for (int g = 0; g < TILES; g++) {
            totals[g] = 0.0;
#pragma unroll
            for (int i = 0; i < 4; i++) sums[g][0][i] = sums[g][1][i] = 0.0;
        }
        for (int first = 0; first < rows.n; first += 8) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int doc = first + 4 * half + column, at = min(doc, rows.n - 1);
                float2 x = *reinterpret_cast<const float2 *>(rows.x + static_cast<i64>(at) * rows.pitch + feature);
                double a = fma(static_cast<double>(x.x), inverse.x, shift.x);
                double b = fma(static_cast<double>(x.y), inverse.y, shift.y);
#pragma unroll
                for (int g = 0; g < TILES; g++) {
                    const float *slopes =
                        reinterpret_cast<const float *>(scores + (ranker + 8 * g + row) * score_pitch);
                    double slope = doc < rows.n ? static_cast<double>(slopes[at]) : 0.0;
                    totals[g] += slope;
                    multiply_add(sums[g][half], a, b, slope);
                }
            }
        }
        float2 x = *reinterpret_cast<const float2 *>(rows.x + feature);
        double reference[2] = {
            fma(static_cast<double>(x.x), inverse.x, shift.x), fma(static_cast<double>(x.y), inverse.y, shift.y)
        };
#pragma unroll
        for (int g = 0; g < TILES; g++) {
            totals[g] += __shfl_xor_sync(ALL, totals[g], 1);
            totals[g] += __shfl_xor_sync(ALL, totals[g], 2);  // of ranker 8 g + row
            double total[2] = {
                __shfl_sync(ALL, totals[g], 8 * column), __shfl_sync(ALL, totals[g], 8 * column + 4)
            };
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int r = ranker + 8 * g + 2 * column + i % 2, f = feature + i / 2, action = actions[r];
                if (action != SKIP) {
                    double sum = (sums[g][0][i] + sums[g][1][i]) - reference[i / 2] * total[i % 2];
                    if (!(action & IS_FIRST)) sum += members[r].sums[f];
                    if (action & IS_LAST) {
                        coefficients[r * (rows.pitch + 2) + f] -= members[r].step * sum;
                    } else {
                        members[r].sums[f] = sum;
                    }
                }
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// The kernels.

// What a block keeps of its rankers.
template <int GROUP>
struct State {
    u64 barriers[8];
    double values[GROUP];
    int seen[GROUP];
    int actions[GROUP];
};

// Slopes of one ranker for one query, in the place of its scores.
__device__ __forceinline__ float loss_query(const Member &member, const Step &step, Split *scores, Room room, int lane) {
    if (member.set_of_query != nullptr) return loss_of_sets(member, step, scores, room, lane);
    const float *weights = static_cast<const float *>(member.weights) + step.start;
    if (member.family == LOGISTIC) return logistic_query(member, scores, weights, step.n, room, lane);
    rank_and_order(scores, weights, step.n, room, lane);
    if (member.family == HINGE) return hinge_query(member, scores, step.n, room, lane);
    return pairwise_query(member, scores, step.n, room, lane);
}

__device__ __forceinline__ double metric_value(
    const Member &member, const Step &step, Split *scores, Room room, int lane
) {
    if (member.set_of_query != nullptr) return metric_of_sets(member, step, scores, lane);
    return metric_query(member, scores, step.start, step.n, room, lane);
}

// The same for scores in global memory. Functions of their own: compiled once, and apart from the code for shared memory.
__device__ __noinline__ float loss_of_long(const Member &member, const Step &step, Split *scores, Room room, int lane) {
    return loss_query(member, step, scores, room, lane);
}

__device__ __noinline__ double metric_of_long(
    const Member &member, const Step &step, Split *scores, Room room, int lane
) {
    return metric_value(member, step, scores, room, lane);
}

__device__ __forceinline__ void write_norm(const Member &member, const Step &step, int pitch, int lane) {
    double square = 0.0;
    for (int f = lane; f < pitch; f += 32) square += member.sums[f] * member.sums[f];
    square = warp_sum(square);
    if (lane == 0) member.norms[step.query] = sqrt(square);
}

template <int GROUP, bool IS_METRIC, bool IS_LONG>
__device__ __forceinline__ void run_query(
    const Step &step, const Rows &rows, const Member *members, bool my_used, State<GROUP> &state, double *coefficients,
    Split *scores, int score_pitch, Room room
) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    score_rows<GROUP>(rows, coefficients, scores, score_pitch, warp, lane);
    __syncthreads();
    u32 used = __ballot_sync(ALL, my_used);
#pragma unroll 1
    for (int i = 0; i < GROUP / WARPS; i++) {
        int r = warp + WARPS * i;
        bool is_used = (used >> i) & 1u;
        const Member &member = members[r];
        Split *own = scores + r * score_pitch;
        __syncwarp();
        if constexpr (IS_METRIC) {
            if (is_used) {
                double value = IS_LONG ? metric_of_long(member, step, own, room, lane)
                                       : metric_value(member, step, own, room, lane);
                if (lane == 0) member.out[step.query] = value;
            }
        } else {
            int action = SKIP;
            if (is_used) {
                float part = IS_LONG ? loss_of_long(member, step, own, room, lane)
                                     : loss_query(member, step, own, room, lane);
                double value = warp_sum(static_cast<double>(part));
                int seen = state.seen[r];
                action = ACTIVE;
                if (seen % member.batch == 0) action |= IS_FIRST;
                if ((seen + 1) % member.batch == 0 || seen + 1 == member.n_used) action |= IS_LAST;
                if (member.norms != nullptr) action = ACTIVE | IS_FIRST;  // the gradient alone
                __syncwarp();
                if (lane == 0) {
                    state.values[r] += value;
                    state.seen[r] = seen + 1;
                }
            }
            if (lane == 0) state.actions[r] = action;
        }
    }
    __syncthreads();
    if constexpr (!IS_METRIC) {
        take_step<GROUP>(rows, members, state.actions, coefficients, scores, score_pitch, warp, lane);
        __syncthreads();
#pragma unroll 1
        for (int i = 0; i < GROUP / WARPS; i++) {
            const Member &member = members[warp + WARPS * i];
            if (((used >> i) & 1u) && member.norms != nullptr) write_norm(member, step, rows.pitch, lane);
        }
    }
}

// Begin to copy a query's scales and, unless it is long, its rows to a stage.
__device__ __forceinline__ void fetch(const Launch &launch, const Step &step, unsigned char *stage, u64 *barrier) {
    int scale_bytes = 16 * launch.pitch;
    int row_bytes = step.n <= launch.capacity ? 4 * launch.pitch * step.n : 0;
    const double *scales = launch.scales + (launch.scales_shared ? 0 : static_cast<i64>(step.query) * 2 * launch.pitch);
    copies_expect(barrier, scale_bytes + row_bytes);
    copy_ahead(stage, scales, scale_bytes, barrier);
    copy_ahead(stage + scale_bytes, launch.features + step.start * launch.pitch, row_bytes, barrier);
}

template <int GROUP, bool IS_METRIC, bool IS_SPILLED>
__device__ __forceinline__ void run_block(const Launch &launch) {
    DYNAMIC_SHARED(memory);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int pitch = launch.pitch, capacity = launch.capacity, stages = launch.stages;
    const Block block = launch.blocks[blockIdx.x];
    const Step *steps = launch.steps + block.first;
    const Member *members = launch.members + blockIdx.x * GROUP;
    double *stored = launch.coefficients + static_cast<i64>(blockIdx.x) * GROUP * (pitch + 2);

    State<GROUP> &state = *reinterpret_cast<State<GROUP> *>(memory);
    unsigned char *free_memory = memory + sizeof(State<GROUP>);
    double *coefficients = stored;
    if constexpr (!IS_SPILLED) {
        coefficients = reinterpret_cast<double *>(free_memory);
        free_memory += GROUP * (pitch + 2) * sizeof(double);
        for (int i = threadIdx.x; i < GROUP * (pitch + 2); i += THREADS) coefficients[i] = stored[i];
    }
    int own_pitch = score_pitch(capacity);
    Split *scores = reinterpret_cast<Split *>(free_memory);
    free_memory += GROUP * own_pitch * sizeof(Split);
    Room room = room_at(free_memory + warp * room_bytes(capacity), round_up(capacity, 4));
    free_memory += WARPS * room_bytes(capacity);
    int stage_bytes = 16 * pitch + 4 * pitch * capacity;

    // the same in global memory, for long queries
    int long_pitch = score_pitch(launch.longest);
    unsigned char *scratch = launch.scratch + blockIdx.x * launch.scratch_bytes;
    Split *long_scores = reinterpret_cast<Split *>(scratch);
    scratch += GROUP * static_cast<i64>(long_pitch) * sizeof(Split);
    Room long_room =
        room_at(scratch + warp * static_cast<i64>(room_bytes(launch.longest)), round_up(launch.longest, 4));

    if (threadIdx.x < GROUP) {
        state.values[threadIdx.x] = 0.0;
        state.seen[threadIdx.x] = 0;
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < stages; s++) copies_begin(&state.barriers[s]);
    }
    __syncthreads();
    for (int s = 0; s < stages; s++) {
        if (s < block.n_steps) fetch(launch, steps[s], free_memory + s * stage_bytes, &state.barriers[s]);
        copies_commit();
    }
    // lane i watches over the warp's i-th ranker
    int my_ranker = warp + WARPS * lane;
    bool has_ranker = lane < GROUP / WARPS && members[my_ranker].weights != nullptr;
    const unsigned char *my_used = has_ranker ? members[my_ranker].used : nullptr;

    Step step = steps[0];
    int at = 0, parity = 0;
    for (i64 i = 0; i < block.n_steps; i++) {
        // loaded now, for later
        Step next = steps[min(i + 1, block.n_steps - 1)], ahead = steps[min(i + stages, block.n_steps - 1)];
        bool is_used = has_ranker && (my_used == nullptr || my_used[step.query]);
        unsigned char *stage = free_memory + at * stage_bytes;
        copies_wait(&state.barriers[at], parity, stages);
        Rows rows;
        rows.inverse = reinterpret_cast<const double *>(stage);
        rows.shift = rows.inverse + pitch;
        rows.n = step.n;
        rows.pitch = pitch;
        if (!IS_SPILLED && step.n <= capacity) {
            rows.x = reinterpret_cast<const float *>(stage + 16 * pitch);
            run_query<GROUP, IS_METRIC, false>(
                step, rows, members, is_used, state, coefficients, scores, own_pitch, room
            );
        } else {
            rows.x = launch.features + step.start * pitch;
            run_query<GROUP, IS_METRIC, true>(
                step, rows, members, is_used, state, coefficients, long_scores, long_pitch, long_room
            );
        }
        if (i + stages < block.n_steps) fetch(launch, ahead, stage, &state.barriers[at]);
        copies_commit();
        step = next;
        if (++at == stages) {
            at = 0;
            parity ^= 1;
        }
    }
    if constexpr (!IS_METRIC) {
        if constexpr (!IS_SPILLED) {
            for (int i = threadIdx.x; i < GROUP * (pitch + 2); i += THREADS) stored[i] = coefficients[i];
        }
        if (threadIdx.x < GROUP && members[threadIdx.x].weights != nullptr) {
            *members[threadIdx.x].out = state.values[threadIdx.x];
        }
    }
}

#define KERNEL(name, group, is_metric, is_spilled)                                              \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) name(const Launch *launch) {       \
        run_block<group, is_metric, is_spilled>(*launch);                                       \
    }

// Compiling takes time, so each kernel is compiled when it is needed: with ONLY_GROUP, ONLY_METRIC and ONLY_SPILLED.
#ifdef ONLY_GROUP
KERNEL(run, ONLY_GROUP, ONLY_METRIC, ONLY_SPILLED)
#else
KERNEL(train_8, 8, false, false)
KERNEL(train_16, 16, false, false)
KERNEL(train_32, 32, false, false)
KERNEL(train_8_spilled, 8, false, true)
KERNEL(metric_8, 8, true, false)
KERNEL(metric_16, 16, true, false)
KERNEL(metric_32, 32, true, false)
KERNEL(metric_8_spilled, 8, true, true)
#endif
