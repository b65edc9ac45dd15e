//! One page from a set of results: self-contained, without scripts, light and dark, for wide
//! screens and phones, next to every plot as an SVG file and the sums of all files.
//!
//! Order of the page: verdict and warnings, rows that may not be believed, the comparison (losses
//! in the same table as wins), plots, environment, option parity, all figures, conditions for
//! quoting. Every figure comes from the set; nothing is typed in by hand.

pub(super) mod conditions;
mod sections;
mod style;
mod throughput;

use super::checksums;
use super::plots::view::View;
use super::plots::{catalogue, draw};
use super::set::ResultSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Text for an element or an attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A name of words joined by underscores, escaped, that may be broken behind each of them.
pub(crate) fn breakable(name: &str) -> String {
    escape(name).replace('_', "_<wbr>")
}

/// Panels of a plot that are shown without being asked for.
const SHOWN_PANELS: usize = 6;

/// A picture of a plot.
struct Picture {
    file: String,
    title: String,
    svg: String,
}

/// A plot, drawn.
struct Drawn {
    name: &'static str,
    title: &'static str,
    says: &'static str,
    needs: &'static str,
    pictures: Vec<Picture>,
}

fn draw_all(view: &View<'_>) -> Result<Vec<Drawn>, String> {
    let mut all = Vec::new();
    for plot in catalogue() {
        let panels = (plot.build)(view);
        let several = panels.len() > 1;
        let mut pictures = Vec::new();
        for (index, panel) in panels.iter().enumerate() {
            let suffix = if several { format!("-{:02}", index + 1) } else { String::new() };
            let title = match panel.title.as_str() {
                "" => plot.title.to_owned(),
                title => format!("{}: {title}", plot.title),
            };
            pictures.push(Picture {
                file: format!("{}{suffix}.svg", plot.name),
                title,
                svg: draw::svg(panel)?,
            });
        }
        all.push(Drawn {
            name: plot.name,
            title: plot.title,
            says: plot.says,
            needs: plot.needs,
            pictures,
        });
    }
    Ok(all)
}

/// The page alone.
fn page(view: &View<'_>, plots: &[Drawn]) -> String {
    let mut body = String::new();
    body.push_str(&sections::head(view));
    body.push_str(&sections::bad_rows(view));
    body.push_str(&sections::notes(view));
    body.push_str(&throughput::comparison(view));
    body.push_str(&plot_sections(plots));
    body.push_str(&sections::environment(view));
    body.push_str(&sections::parity(view));
    body.push_str(&sections::details(view));
    body.push_str(&conditions::section(view));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         </body>\n</html>\n",
        escape(&sections::title(view)),
        style::sheet(),
    )
}

fn figure(picture: &Picture) -> String {
    let label = escape(&picture.title);
    let svg =
        picture.svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1);
    let caption = picture.title.split_once(": ").map_or("", |(_, panel)| panel);
    let caption = match caption {
        "" => String::new(),
        text => format!("<figcaption>{}</figcaption>", escape(text)),
    };
    format!("<figure>{caption}{svg}</figure>\n")
}

fn plot_sections(plots: &[Drawn]) -> String {
    let mut out = String::from("<h2 id=\"plots\">Plots</h2>\n");
    out.push_str(
        "<p class=\"muted\">Bars and points are medians; whiskers span the lowest and highest \
         repetition. Hatched bars belong to rows that failed a check. Every picture is also a file \
         beside this page.</p>\n<nav class=\"toc\">",
    );
    for plot in plots.iter().filter(|plot| !plot.pictures.is_empty()) {
        out.push_str(&format!("<a href=\"#{}\">{}</a> ", plot.name, escape(plot.title)));
    }
    out.push_str("</nav>\n<div class=\"plots\">\n");
    for plot in plots.iter().filter(|plot| !plot.pictures.is_empty()) {
        let number = plot.name.split('_').next().unwrap_or_default();
        out.push_str(&format!(
            "<section id=\"{}\" class=\"{}\"><h3><span class=\"number\">{number}</span> {}</h3>\n<p>{}</p>\n",
            plot.name,
            match plot.pictures.len() {
                1 => "one",
                2 => "two",
                _ => "many",
            },
            escape(plot.title),
            escape(plot.says)
        ));
        let (shown, rest) = plot.pictures.split_at(plot.pictures.len().min(SHOWN_PANELS));
        out.push_str("<div class=\"panels\">\n");
        shown.iter().for_each(|picture| out.push_str(&figure(picture)));
        out.push_str("</div>\n");
        if !rest.is_empty() {
            let count = rest.len();
            out.push_str(&format!(
                "<details><summary>{count} more</summary><div class=\"panels\">\n"
            ));
            rest.iter().for_each(|picture| out.push_str(&figure(picture)));
            out.push_str("</div></details>\n");
        }
        out.push_str("</section>\n");
    }
    out.push_str("</div>\n");
    let missing: Vec<&Drawn> = plots.iter().filter(|plot| plot.pictures.is_empty()).collect();
    if !missing.is_empty() {
        out.push_str("<h3>Not in this set of results</h3>\n<ul class=\"muted\">");
        for plot in missing {
            let (name, title) = (plot.name, escape(plot.title));
            out.push_str(&format!("<li>{name}: {title} needs {}</li>", escape(plot.needs)));
        }
        out.push_str("</ul>\n");
    }
    out
}

/// Writes page, pictures, results and sums into a folder; returns the path of the page.
///
/// The folder is made if it is missing. Files of an earlier report in it are replaced, others stay.
pub(crate) fn write(
    set: &ResultSet,
    older: &[ResultSet],
    baseline: &str,
    folder: &Path,
) -> Result<PathBuf, String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let view = View::new(set, older, baseline);
    let plots = draw_all(&view)?;
    let pictures = folder.join("plots");
    fs::create_dir_all(&pictures).map_err(|error| failed(&pictures, error))?;
    let page_path = folder.join("report.html");
    fs::write(&page_path, page(&view, &plots)).map_err(|error| failed(&page_path, error))?;
    let results = folder.join("results.json");
    set.write(&results)?;
    let table = folder.join("results.csv");
    if table.exists() {
        fs::remove_file(&table).map_err(|error| failed(&table, error))?;
    }
    super::csv::append(&table, set)?;
    let mut files = vec![page_path.clone(), results, table];
    for picture in plots.iter().flat_map(|plot| &plot.pictures) {
        let path = pictures.join(&picture.file);
        let text = draw::file(&picture.svg, &picture.title);
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
        files.push(path);
    }
    checksums::write(folder, &files)?;
    Ok(page_path)
}

#[cfg(test)]
mod tests;
