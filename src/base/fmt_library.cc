// Debian ships fmt as a shared library only. Its implementation is compiled here, once, rather
// than in every file that formats something (FMT_HEADER_ONLY), which costs seconds each.
//
// Its vprint() throws when a stream cannot be written: a closed pipe behind stderr or a full disk
// would end an agent in the middle of its work. Ours drops what nobody can take.
#include <fmt/format.h>

#define vprint vprint_or_throw
#include <fmt/format-inl.h>
#undef vprint

FMT_BEGIN_NAMESPACE
namespace detail {

template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, basic_format_args<buffer_context<char>>,
                         locale_ref);

}  // namespace detail

void vprint(std::FILE* file, string_view format, format_args args) {
  memory_buffer text;
  detail::vformat_to(text, format, args);
  // main() asks stdout in the end whether all was written.
  if (std::fwrite(text.data(), 1, text.size(), file) < text.size()) return;
}

void vprint(string_view format, format_args args) { vprint(stdout, format, args); }

FMT_END_NAMESPACE
