// SPDX-License-Identifier: Apache-2.0
// The largest numbers of each chunk; see largest.py, which defines which they are.
#include <cstdint>
#include <cstring>
#include <new>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

typedef std::uint32_t Bits;  // of a float without its sign: they ascend as magnitudes do

constexpr Bits kInfinite = 0x7f800000;
constexpr long kWord = 64;    // numbers that one word of marks stands for
constexpr long kLine = 16;    // floats of a cache line; the next chunk's are asked for early
constexpr long kGroups = 4;   // maxima per number wanted
constexpr int kCoarse = 16;   // low bits that the first bound leaves 0

// Bit i: whether from[i] is at least `least`, for 64 numbers.
inline std::uint64_t marks(const Bits* from, Bits least) {
  std::uint64_t found = 0;
#if defined(__AVX512F__)
  const __m512i bound = _mm512_set1_epi32(static_cast<int>(least));
  for (int part = 0; part < 4; ++part) {
    const __m512i some = _mm512_loadu_si512(from + 16 * part);
    found |= std::uint64_t(_mm512_cmpge_epu32_mask(some, bound)) << (16 * part);
  }
#elif defined(__AVX2__)
  const __m256i bound = _mm256_set1_epi32(static_cast<int>(least));
  for (int part = 0; part < 8; ++part) {
    const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 8 * part));
    const __m256i same = _mm256_cmpeq_epi32(_mm256_max_epu32(some, bound), some);
    found |= std::uint64_t(unsigned(_mm256_movemask_ps(_mm256_castsi256_ps(same)))) << (8 * part);
  }
#else
  for (int i = 0; i < kWord; ++i) found |= std::uint64_t(from[i] >= least) << i;
#endif
  return found;
}

long reach(const Bits* from, long length, Bits least) {
  std::uint32_t found = 0;  // as wide as what is compared
  for (long i = 0; i < length; ++i) found += from[i] >= least;
  return found;
}

// The greatest bound with no bit below `low` that at least `count` of the numbers reach.
Bits bound_of(const Bits* from, long length, long count, int low) {
  Bits bound = 0;
  for (int bit = 30; bit >= low; --bit) {
    const Bits tried = bound | (Bits(1) << bit);
    if (reach(from, length, tried) >= count) bound = tried;
  }
  return bound;
}

inline Bits magnitude(float value) {
  Bits bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits & 0x7fffffff;
}

}  // namespace

// Places, ascending, and values of the `count` largest of each of down * across chunks of height *
// width numbers. Chunk (y, x) begins at y * chunk_y + x * chunk_x, its row r at r * row further on;
// a row's numbers lie side by side. `more`, if not null, lies alike and is added.
// Returns 1; 0 if there is no memory for it; -1 if a number is NaN or infinite.
extern "C" int largest(const float* numbers, const float* more, long chunk_y, long row,
                       long chunk_x, long down, long across, long height, long width, long count,
                       std::int64_t* places, float* values) {
  const long size = height * width, whole = (size + kWord - 1) / kWord * kWord;
  long groups = size;
  while (groups % 2 == 0 && groups / 2 >= kGroups * count) groups /= 2;
  // The chunk's magnitudes, filled up with zeros that are never asked for; maxima; who comes near.
  Bits* bits = new (std::nothrow) Bits[whole + groups + size]();
  std::int64_t* near = new (std::nothrow) std::int64_t[size];
  int ok = bits && near;
  for (long chunk = 0; ok == 1 && chunk < down * across; ++chunk) {
    const long start = chunk / across * chunk_y + chunk % across * chunk_x;
    Bits* maxima = bits + whole;
    Bits* sizes = maxima + groups;
    for (long r = 0; r < height; ++r) {
      const float* from = numbers + start + r * row;
      Bits* to = bits + r * width;
      for (long i = 0; i < width; i += kLine) __builtin_prefetch(from + chunk_x + i);
      if (more) {
        const float* other = more + start + r * row;
        for (long i = 0; i < width; ++i) to[i] = magnitude(from[i] + other[i]);
      } else {
        for (long i = 0; i < width; ++i) to[i] = magnitude(from[i]);
      }
    }
    std::memcpy(maxima, bits, sizeof(Bits) * groups);
    for (long at = groups; at < size; at += groups)
      for (long i = 0; i < groups; ++i) maxima[i] = maxima[i] > bits[at + i] ? maxima[i] : bits[at + i];
    Bits most = 0;
    for (long i = 0; i < groups; ++i) most = most > maxima[i] ? most : maxima[i];
    if (most >= kInfinite) {
      ok = -1;
      break;
    }
    const Bits rough = bound_of(maxima, groups, count, kCoarse);
    long found = 0;
    for (long at = 0; at < size; at += kWord) {
      std::uint64_t here = marks(bits + at, rough);
      if (size - at < kWord) here &= (std::uint64_t(1) << (size - at)) - 1;
      for (; here; here &= here - 1, ++found) {
        near[found] = at + __builtin_ctzll(here);
        sizes[found] = bits[near[found]];
      }
    }
    const Bits least = bound_of(sizes, found, count, 0);
    long level = count - reach(sizes, found, least + 1);  // of those that are equal, the first
    std::int64_t* place = places + chunk * count;
    float* value = values + chunk * count;
    for (long i = 0, taken = 0; i < found; ++i) {
      if (sizes[i] < least || (sizes[i] == least && level-- <= 0)) continue;
      const long at = start + near[i] / width * row + near[i] % width;
      place[taken] = near[i];
      value[taken++] = more ? numbers[at] + more[at] : numbers[at];
    }
  }
  delete[] bits;
  delete[] near;
  return ok;
}
