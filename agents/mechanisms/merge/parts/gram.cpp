// SPDX-License-Identifier: Apache-2.0
// Inner products of rows that are rounded to integers; see gram.py, which says why they are exact.
#include <cstdint>
#include <cstring>
#include <new>

namespace {

// A tile is kDown rows against kAcross rows. Its sums, and kAcross + 1 vectors of values, stay in registers.
constexpr long kDown = 4;
#ifdef __AVX512F__
constexpr long kLanes = 8;  // doubles that are worked on together
constexpr long kAcross = 4;
#else
constexpr long kLanes = 4;
constexpr long kAcross = 3;
#endif
constexpr long kGroup = 2 * kDown;    // rows that stay in the first cache while all others pass by
constexpr long kSpan = 128;           // columns that stay in the second one while all pairs are multiplied
constexpr long kPitch = kSpan + 8;    // of rows: at a power of two, rows would take each other's place in the cache
constexpr long kLine = 16;            // columns that the memory delivers together
constexpr long kExact = 1 << 14;      // columns whose products a double adds without rounding
typedef double Vec __attribute__((vector_size(kLanes * sizeof(double))));
typedef Vec Loose __attribute__((aligned(8), may_alias));

// Makes the compiler keep a loaded value in its register: GCC 12 would load it again for each product, and loads
// would then take longer than products.
#ifdef __AVX__
#define HOLD(value) asm("" : "+v"(value))
#else
#define HOLD(value)
#endif

// Rounds half to even by going where floats have no fraction: exact for magnitudes below 2^22.
inline float whole(float value) {
  const float magic = 12582912.0f;  // 1.5 * 2^23
  return (value + magic) - magic;
}

void load(const float* const* rows, const float* scales, long n, long centre, long start, long width,
          double* out) {
  for (long i = 0; i < n; ++i) {
    const float* row = rows[i] + start;
    double* to = out + i * kPitch;
    const float scale = scales[i];
    if (centre < 0) {
      for (long k = 0; k < width; ++k) to[k] = whole(row[k] * scale);
    } else {
      const float* middle = rows[centre] + start;
      for (long k = 0; k < width; ++k) {
        const float apart = row[k] - middle[k];
        to[k] = whole(apart * scale);
      }
    }
    std::memset(to + width, 0, sizeof(double) * (kSpan - width));
  }
}

// Adds the products of a tile's rows. Every loop over the tile is unrolled by name and values are loaded by a type
// that may lie anywhere: GCC 12 keeps memcpy and short loops, and then all sums go through memory in each step.
template <long across>
void tile(const double* left, const double* right, Vec* sums) {
  Vec s[kDown][across];
#pragma GCC unroll 4
  for (long i = 0; i < kDown; ++i)
#pragma GCC unroll 4
    for (long j = 0; j < across; ++j) s[i][j] = sums[i * across + j];
  for (long k = 0; k < kSpan; k += kLanes) {
    Vec b[across];
#pragma GCC unroll 4
    for (long j = 0; j < across; ++j) {
      b[j] = *reinterpret_cast<const Loose*>(right + j * kPitch + k);
      HOLD(b[j]);
    }
#pragma GCC unroll 4
    for (long i = 0; i < kDown; ++i) {
      Vec a = *reinterpret_cast<const Loose*>(left + i * kPitch + k);
      HOLD(a);
#pragma GCC unroll 4
      for (long j = 0; j < across; ++j) s[i][j] += a * b[j];
    }
  }
#pragma GCC unroll 4
  for (long i = 0; i < kDown; ++i)
#pragma GCC unroll 4
    for (long j = 0; j < across; ++j) sums[i * across + j] = s[i][j];
}

// The width of the next tile where `left` columns are left: so that none is left over, of a multiple of 4.
inline long next_width(long left) { return kAcross == 4 || (left != 2 && left != 4) ? kAcross : 2; }

// Calls work(row, column, width) for the tiles that cover the diagonal and what is right of it, always in one order.
template <typename Work>
void each_tile(long padded, Work work) {
  for (long top = 0; top < padded; top += kGroup) {
    const long below = top + kGroup < padded ? top + kGroup : padded;
    for (long i = top; i < below; i += kDown)
      for (long j = i, width; j < below; j += width) work(i, j, width = next_width(below - j));
    for (long j = below, width; j < padded; j += width) {
      width = next_width(padded - j);
      for (long i = top; i < below; i += kDown) work(i, j, width);
    }
  }
}

}  // namespace

// Adds the inner products of n rows, scaled and rounded, to the upper triangle of totals [n, n].
// centre: the row that is subtracted from all before, or -1. Returns 0 if there is no memory for it.
extern "C" int inner_products(const float* const* rows, const float* scales, long n, long centre,
                              long columns, std::int64_t* totals) {
  const long padded = (n + kDown - 1) / kDown * kDown;
  long many = 0, tiles = 1;
  each_tile(padded, [&](long, long, long width) { many += kDown * width, ++tiles; });
  const long share = n * (kSpan / kLine) / tiles + 1;  // lines that each tile asks for
  double* values = new (std::align_val_t(64), std::nothrow) double[padded * kPitch]();
  Vec* sums = new (std::align_val_t(64), std::nothrow) Vec[many]();
  int ok = values && sums;
  for (long at = 0; ok && at < columns; at += kExact) {
    const long end = at + kExact < columns ? at + kExact : columns;
    std::memset(static_cast<void*>(sums), 0, sizeof(Vec) * many);
    for (long start = at; start < end; start += kSpan) {
      load(rows, scales, n, centre, start, end - start < kSpan ? end - start : kSpan, values);
      Vec* next = sums;
      // The next columns come from memory while these are multiplied. A span of a row is too short for the processor
      // to foresee it.
      const float *const *ahead = rows, *const *const last = start + 2 * kSpan <= columns ? rows + n : rows;
      long line = start + kSpan;
      each_tile(padded, [&](long i, long j, long width) {
        for (long asked = 0; asked < share && ahead < last; ++asked) {
          __builtin_prefetch(*ahead + line);
          line += kLine;
          if (line == start + 2 * kSpan) line = start + kSpan, ++ahead;
        }
        const double *left = values + i * kPitch, *right = values + j * kPitch;
        if (width == kAcross) tile<kAcross>(left, right, next);
        else tile<2>(left, right, next);
        next += kDown * width;
      });
    }
    const Vec* next = sums;
    each_tile(padded, [&](long i, long j, long width) {
      for (long pair = 0; pair < kDown * width; ++pair, ++next) {
        const long row = i + pair / width, column = j + pair % width;
        if (column >= n || column < row) continue;
        double sum = 0;
        for (long lane = 0; lane < kLanes; ++lane) sum += (*next)[lane];
        totals[row * n + column] += static_cast<std::int64_t>(sum);
      }
    });
  }
  ::operator delete[](values, std::align_val_t(64));
  ::operator delete[](sums, std::align_val_t(64));
  return ok;
}
