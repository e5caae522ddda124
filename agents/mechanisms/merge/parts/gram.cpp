// SPDX-License-Identifier: Apache-2.0
// Inner products of rows that are rounded to integers; see gram.py, which says why they are exact.
#include <cstdint>
#include <cstring>
#include <new>

namespace {

#ifdef __AVX512F__
constexpr long kLanes = 8;  // doubles that are worked on together
constexpr long kTile = 4;   // rows against rows, whose sums stay in registers
#else
constexpr long kLanes = 4;
constexpr long kTile = 3;
#endif
constexpr long kSpan = 256;       // columns that stay in the cache while all pairs are multiplied
constexpr long kExact = 1 << 14;  // columns whose products a double adds without rounding
typedef double Vec __attribute__((vector_size(kLanes * sizeof(double))));
typedef Vec Loose __attribute__((aligned(8), may_alias));

// Rounds half to even by going where floats have no fraction: exact for magnitudes below 2^22.
inline float whole(float value) {
  const float magic = 12582912.0f;  // 1.5 * 2^23
  return (value + magic) - magic;
}

void load(const float* const* rows, const float* scales, long n, long centre, long start, long width,
          double* out) {
  for (long i = 0; i < n; ++i) {
    const float* row = rows[i] + start;
    double* to = out + i * kSpan;
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
void tile(const double* left, const double* right, Vec* sums) {
  Vec s[kTile][kTile];
#pragma GCC unroll 4
  for (long i = 0; i < kTile; ++i)
#pragma GCC unroll 4
    for (long j = 0; j < kTile; ++j) s[i][j] = sums[i * kTile + j];
  for (long k = 0; k < kSpan; k += kLanes) {
    Vec a[kTile], b[kTile];
#pragma GCC unroll 4
    for (long i = 0; i < kTile; ++i) {
      a[i] = *reinterpret_cast<const Loose*>(left + i * kSpan + k);
      b[i] = *reinterpret_cast<const Loose*>(right + i * kSpan + k);
    }
#pragma GCC unroll 4
    for (long i = 0; i < kTile; ++i)
#pragma GCC unroll 4
      for (long j = 0; j < kTile; ++j) s[i][j] += a[i] * b[j];
  }
#pragma GCC unroll 4
  for (long i = 0; i < kTile; ++i)
#pragma GCC unroll 4
    for (long j = 0; j < kTile; ++j) sums[i * kTile + j] = s[i][j];
}

}  // namespace

// Adds the inner products of n rows, scaled and rounded, to the upper triangle of totals [n, n].
// centre: the row that is subtracted from all before, or -1. Returns 0 if there is no memory for it.
extern "C" int inner_products(const float* const* rows, const float* scales, long n, long centre,
                              long columns, std::int64_t* totals) {
  const long blocks = (n + kTile - 1) / kTile, padded = blocks * kTile;
  const long tiles = blocks * (blocks + 1) / 2;
  double* values = new (std::align_val_t(64), std::nothrow) double[padded * kSpan]();
  Vec* sums = new (std::align_val_t(64), std::nothrow) Vec[tiles * kTile * kTile]();
  int ok = values && sums;
  for (long at = 0; ok && at < columns; at += kExact) {
    const long end = at + kExact < columns ? at + kExact : columns;
    std::memset(static_cast<void*>(sums), 0, sizeof(Vec) * tiles * kTile * kTile);
    for (long start = at; start < end; start += kSpan) {
      load(rows, scales, n, centre, start, end - start < kSpan ? end - start : kSpan, values);
      Vec* next = sums;
      for (long i = 0; i < blocks; ++i)
        for (long j = i; j < blocks; ++j, next += kTile * kTile)
          tile(values + i * kTile * kSpan, values + j * kTile * kSpan, next);
    }
    const Vec* next = sums;
    for (long i = 0; i < blocks; ++i)
      for (long j = i; j < blocks; ++j)
        for (long pair = 0; pair < kTile * kTile; ++pair, ++next) {
          const long row = i * kTile + pair / kTile, column = j * kTile + pair % kTile;
          if (row >= n || column >= n) continue;
          double sum = 0;
          for (long lane = 0; lane < kLanes; ++lane) sum += (*next)[lane];
          totals[row * n + column] += static_cast<std::int64_t>(sum);
        }
  }
  ::operator delete[](values, std::align_val_t(64));
  ::operator delete[](sums, std::align_val_t(64));
  return ok;
}
