# frozen_string_literal: true

require "fileutils"
require "open3"

# The accessibility checks of axe-core, which npm fetches once into the cache folder of the test broker's jars.
module Axe
  VERSION = "4.14.1"
  FOLDER = File.join(ENV.fetch("XDG_CACHE_HOME") { File.join(Dir.home, ".cache") }, "pelton", "axe-core-#{VERSION}")
  FILE = File.join(FOLDER, "package", "axe.min.js")
  # Resolves to ["color-contrast: <a href=…> …", …], an entry for each element with a problem. Of rows that differ in
  # nothing but texts and addresses, it looks at three.
  RUN = <<~JS
    const done = arguments[arguments.length - 1];
    const seen = new Map();
    const repeats = [...document.querySelectorAll("tbody tr")].filter((row) => {
      const shape = row.outerHTML.replace(/>[^<]+</g, "><").replace(/ (?!class|role|scope|tabindex)[\\w-]+="[^"]*"/g, "");
      seen.set(shape, (seen.get(shape) || 0) + 1);
      return seen.get(shape) > 3;
    });
    const where = repeats.length ? { exclude: repeats } : document;
    axe.run(where, { resultTypes: ["violations"] }).then((result) => done(result.violations.flatMap((violation) =>
      violation.nodes.map((node) => `${violation.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`))));
  JS

  class << self
    # What this machine lacks; nil: nothing.
    def missing
      "no npm, which fetches axe-core (Debian: apt-get install npm)" unless system("command -v npm > /dev/null")
    end

    # The problems of the page that the browser shows.
    def problems(browser)
      browser.script(source) unless browser.script("return 'axe' in window")
      browser.script_async(RUN)
    end

    private

    def source = @source ||= File.read(FILE.tap { fetch unless File.exist?(FILE) })

    def fetch
      FileUtils.mkdir_p(FOLDER)
      output, status = Open3.capture2e("npm", "pack", "--silent", "axe-core@#{VERSION}", chdir: FOLDER)
      raise "npm pack: #{output}" unless status.success?

      output, status = Open3.capture2e("tar", "-xzf", output.lines.last.chomp, chdir: FOLDER)
      raise "tar: #{output}" unless status.success?
    end
  end
end
