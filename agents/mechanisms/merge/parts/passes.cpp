// SPDX-License-Identifier: Apache-2.0
// Two passes over payloads; see passes.py.
#include <cstdint>
#include <cstring>

namespace {

constexpr long kSpan = 4096;      // columns whose sums stay in the cache
constexpr long kRead = 1 << 14;   // columns of one row that are read at a time

// Adds weighted columns of some rows, one row after the other. Each product is exact.
template <long rows_at_once>
void add(const float* const* rows, const double* weights, long start, long width, double* sums) {
  for (long k = 0; k < width; ++k) {
    double sum = sums[k];
    for (long i = 0; i < rows_at_once; ++i) sum += weights[i] * rows[i][start + k];
    sums[k] = sum;
  }
}

}  // namespace

// The largest magnitude of each of n rows: found[n], at least what it was. NaN counts as more than
// all numbers. centre: the row that is subtracted from all before, or -1.
extern "C" int largest(const float* const* rows, long n, long centre, long columns, float* found) {
  for (long start = 0; start < columns; start += kRead) {
    const long width = columns - start < kRead ? columns - start : kRead;
    const float* middle = centre < 0 ? nullptr : rows[centre] + start;
    for (long i = 0; i < n; ++i) {
      const float* row = rows[i] + start;
      std::uint32_t most;  // magnitudes ascend as their bits do
      std::memcpy(&most, found + i, sizeof most);
      for (long k = 0; k < width; ++k) {
        const float value = middle ? row[k] - middle[k] : row[k];
        std::uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        bits &= 0x7fffffff;
        most = most > bits ? most : bits;
      }
      std::memcpy(found + i, &most, sizeof most);
    }
  }
  return 1;
}

// out[k] = sum over i of weights[i] * rows[i][k], in the rows' order, over divisor. Zeros are +0.
extern "C" int weighted_sum(const float* const* rows, const double* weights, long n, double divisor,
                            long columns, float* out) {
  for (long start = 0; start < columns; start += kSpan) {
    const long width = columns - start < kSpan ? columns - start : kSpan;
    double sums[kSpan] = {};
    long i = 0;
    for (; i + 8 <= n; i += 8) add<8>(rows + i, weights + i, start, width, sums);
    for (; i + 4 <= n; i += 4) add<4>(rows + i, weights + i, start, width, sums);
    for (; i < n; ++i) add<1>(rows + i, weights + i, start, width, sums);
    for (long k = 0; k < width; ++k) {
      const float value = static_cast<float>(sums[k] / divisor);
      out[start + k] = value == 0 ? 0.0f : value;
    }
  }
  return 1;
}
