# frozen_string_literal: true

# once: the gems are the same for each Ruby

require "test_helper"
require "support/gems/build"
require "tmpdir"
require "zlib"

# What bin/gems packs. (test/integration/clean_install.rb installs it.)
class GemsTest < Minitest::Test
  def setup = @folder = Dir.mktmpdir("pelton-gems")
  def teardown = FileUtils.rm_rf(@folder)

  def test_a_source_gem_of_the_same_files_has_the_same_bytes_and_no_warning
    sums = nil
    _, warnings = capture_io do
      sums = [0o022, 0o077].map { |umask| digest(umask) { |folder| Gems::Package.source.write(folder) } }
    end
    assert_equal 1, sums.uniq.size
    assert_empty warnings
  end

  def test_a_precompiled_gem_of_the_same_files_has_the_same_bytes_and_no_warning
    sums = nil
    _, warnings = capture_io do
      sums = [0o022, 0o077].map { |umask| digest(umask) { |folder| precompiled.write(folder) } }
    end
    assert_equal 1, sums.uniq.size
    assert_empty warnings
  end

  def test_a_precompiled_gem_has_an_extension_for_each_ruby_and_nothing_to_compile
    spec = Gem::Package.new(precompiled.write(@folder)).spec

    assert_empty spec.extensions
    assert_empty spec.files.grep(%r{\Aext/|cargo|\.rs\z}i)
    assert_equal %w[lib/pelton/3.1/pelton.so lib/pelton/4.0/pelton.so], spec.files.grep(/\.so\z/)
    assert_includes spec.files, "pelton.cdx.json"
    assert_includes spec.files, "THIRD_PARTY_LICENSES.txt"
    refute_equal Gem::Platform::RUBY, spec.platform
  end

  def test_a_precompiled_gem_is_for_the_rubies_from_its_first_abi_to_its_last
    wanted = Gem::Package.new(precompiled.write(@folder)).spec.required_ruby_version

    { "3.0.9" => false, "3.1.0" => true, "4.0.7" => true, "4.1.0.dev" => false, "4.1.0" => false }.each do |ruby, fits|
      assert_equal fits, wanted.satisfied_by?(Gem::Version.new(ruby)), ruby
    end
  end

  def test_files_in_a_gem_are_readable_by_all_whatever_the_umask
    digest(0o077) do |folder|
      path = precompiled.write(folder)
      modes = modes_in(path)
      assert_equal [0o644, 0o755, 0o755],
                   %w[lib/pelton.rb exe/pelton lib/pelton/3.1/pelton.so].map { |file| modes[file] }
      path
    end
  end

  def test_the_bill_of_materials_names_crates_and_c_libraries_with_version_and_license
    skip "no cargo" unless system("cargo", "--version", out: File::NULL, err: File::NULL)

    bill = JSON.parse(Gems::BillOfMaterials.new.to_json)
    parts = bill["components"].to_h { |part| [part["name"], part] }

    assert_equal ["pelton", Pelton::VERSION], bill["metadata"]["component"].values_at("name", "version")
    assert_equal "MIT AND Apache-2.0 WITH LLVM-exception", parts["zig"]["licenses"].first["expression"]
    assert_equal "CycloneDX", bill["bomFormat"]
    assert_empty %w[librdkafka OpenSSL Zstandard zlib jemalloc regex rust-std] - parts.keys
    assert_empty(parts.reject { |_, part| part["version"].match?(/\A\d+\.\d+/) && part["licenses"].size == 1 })
    assert_match(/\A\h{64}\z/, parts["regex"]["hashes"][0]["content"])
    assert_equal parts.size, parts.values.map { |part| part["bom-ref"] }.uniq.size
  end

  def test_sums_are_what_sha256sum_checks
    File.write("#{@folder}/pelton-1.gem", "one")
    File.write("#{@folder}/other", "not ours")
    Gems.sums(@folder)

    assert_equal "#{Digest::SHA256.hexdigest("one")}  pelton-1.gem\n", File.read("#{@folder}/SHA256SUMS")
  end

  def test_error_for_a_ruby_without_an_extension_names_the_source_gem
    FileUtils.cp_r("#{Gems::ROOT}/lib", @folder)
    FileUtils.rm_rf(Dir.glob("#{@folder}/lib/pelton/*.*/"))
    FileUtils.mkdir_p("#{@folder}/lib/pelton/9.8")
    FileUtils.touch("#{@folder}/lib/pelton/9.8/pelton.so")
    output, status = Open3.capture2e(RbConfig.ruby, "-I#{@folder}/lib", "-e", 'require "pelton"')

    refute_predicate status, :success?
    assert_match(/no native extension for this Ruby #{RUBY_VERSION} .* it is built for Ruby 9\.8 only\. /, output)
    assert_includes output, "gem install pelton --platform ruby"
  end

  def test_an_extension_that_needs_a_newer_glibc_is_refused
    error = assert_raises(Gems::Failure) { symbols("(GLIBC_2.34) pthread_create").check("2.28") }

    assert_includes error.message, "pthread_create@GLIBC_2.34"
    refute_includes error.message, "memcpy"
  end

  def test_an_extension_that_needs_what_neither_glibc_nor_ruby_has_is_refused
    error = assert_raises(Gems::Failure) { symbols("             stat64x").check("2.28") }

    assert_match(/: stat64x\z/, error.message)
  end

  def test_an_extension_for_an_old_glibc_is_accepted
    assert_nil symbols("(GLIBC_2.28) fcntl64").check("2.28")
  end

  # Zig defines NDEBUG for optimized code.
  def test_an_extension_without_the_assertions_of_its_c_code_is_refused
    assert_nil symbols("(GLIBC_2.2.5) __assert_fail").check_assertions
    error = assert_raises(Gems::Failure) { symbols("(GLIBC_2.2.5) abort").check_assertions }

    assert_includes error.message, "NDEBUG"
  end

  def test_an_extension_that_exports_names_which_other_libraries_may_have_is_refused
    line = "000000000038df90 g    DF .text	0000000000000006  Base        "
    assert_nil Gems::Symbols.new("#{line}Init_pelton\n").check("2.28")
    table = "#{line}Init_pelton\n#{line}__wrap_malloc\n"
    error = assert_raises(Gems::Failure) { Gems::Symbols.new(table).check("2.28") }

    assert_includes error.message, "more than Init_pelton: __wrap_malloc"
  end

  def test_an_extension_for_musl_that_needs_another_library_than_musl_is_refused
    needs = ->(*names) { names.map { |name| "  NEEDED               #{name}\n" }.join }
    assert_nil Gems::NativeBuild.check_libraries(needs.("libc.so"))
    assert_nil Gems::NativeBuild.check_libraries(needs.("libc.musl-x86_64.so.1"))
    error = assert_raises(Gems::Failure) { Gems::NativeBuild.check_libraries(needs.("libgcc_s.so.1", "libc.so")) }

    assert_includes error.message, "needs libgcc_s.so.1, which"
  end

  # RubyGems 3.3.15, which Debian 12 has, chose the gem for musl there.
  def test_a_precompiled_gem_for_musl_is_not_for_a_rubygems_that_takes_it_for_glibc
    for_musl, for_glibc = %w[musl gnu].map do |libc|
      Gem::Package.new(precompiled("x86_64-unknown-linux-#{libc}").write(@folder)).spec
    end

    assert_equal %w[x86_64-linux-musl x86_64-linux], [for_musl, for_glibc].map { |spec| spec.platform.to_s }
    fits = ->(spec, rubygems) { spec.required_rubygems_version.satisfied_by?(Gem::Version.new(rubygems)) }
    assert_equal [false, true], [fits.(for_musl, "3.3.15"), fits.(for_musl, "3.3.22")]
    assert fits.(for_glibc, "3.3.15")
  end

  def test_an_extension_of_more_than_10_megabytes_is_refused_with_its_size
    FileUtils.touch("#{@folder}/pelton.so")
    File.truncate("#{@folder}/pelton.so", 10_000_000)
    assert_nil Gems::NativeBuild.check_size("#{@folder}/pelton.so")

    File.truncate("#{@folder}/pelton.so", 10_000_001)
    error = assert_raises(Gems::Failure) { Gems::NativeBuild.check_size("#{@folder}/pelton.so") }
    assert_includes error.message, "pelton.so has 10000001 bytes"
  end

  def test_the_extension_of_an_installed_gem_is_found_by_its_abi
    abi = RUBY_VERSION[/\A\d+\.\d+/]
    %W[9.8 #{abi}].each do |name|
      FileUtils.mkdir_p("#{@folder}/gems/pelton-1/lib/pelton/#{name}")
      FileUtils.touch("#{@folder}/gems/pelton-1/lib/pelton/#{name}/pelton.so")
    end

    assert_equal "#{@folder}/gems/pelton-1/lib/pelton/#{abi}/pelton.so", Gems.installed(RbConfig.ruby, @folder)
    FileUtils.rm_rf("#{@folder}/gems/pelton-1/lib/pelton/#{abi}")
    error = assert_raises(Gems::Failure) { Gems.installed(RbConfig.ruby, @folder) }
    assert_includes error.message, "no extension for Ruby #{abi}"
  end

  private

  # As objdump -T prints them.
  def symbols(last)
    Gems::Symbols.new(<<~TABLE)
      0000000000000000  w   D  *UND*\t0000000000000000              __gmon_start__
      0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.14) memcpy
      0000000000000000      D  *UND*\t0000000000000000              rb_errinfo
      0000000000378740 g    DF .text\t00000000000003a7  Base        Init_pelton
      0000000000000000      DF *UND*\t0000000000000000 #{last}
    TABLE
  end

  def precompiled(target = nil)
    extensions = %w[4.0 3.1].to_h do |abi|
      File.write("#{@folder}/#{abi}.so", "extension of #{abi}")
      [abi, "#{@folder}/#{abi}.so"]
    end
    Gems::Package.precompiled(extensions, "{}", target)
  end

  # {"lib/pelton.rb" => 0o644}, as the gem's archive has them.
  def modes_in(gem)
    File.open(gem, "rb") do |file|
      Gem::Package::TarReader.new(file).seek("data.tar.gz") do |data|
        Zlib::GzipReader.wrap(StringIO.new(data.read)) do |tar|
          Gem::Package::TarReader.new(tar).to_h { |entry| [entry.full_name, entry.header.mode & 0o777] }
        end
      end
    end
  end

  def digest(umask)
    before = File.umask(umask)
    Dir.mktmpdir { |folder| Digest::SHA256.file(yield(folder)).hexdigest }
  ensure
    File.umask(before)
  end
end
