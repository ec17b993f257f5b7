# Runs in the kernel of a session of its own: the document beside it as JSON, into extracted.json.
# Nothing of the document is run, and nothing that it links to is fetched.
def husk_extract(suffix, limit, with_schema):
    import itertools
    import json
    import logging
    import os
    import re
    import zipfile

    logging.disable(logging.CRITICAL)

    class Refused(Exception):
        pass

    # What jsonschema raises besides its own: addresses, patterns, numbers and depths beyond it.
    UNFIT = (re.error, RecursionError, OverflowError, ValueError)
    UNPACKED_MAX = 256 << 20  # of all that an office document packs; some parsers bound nothing

    def shortened(text, most):
        text = " ".join(str(text).split())
        return text if len(text) <= most else text[:most - 3] + "..."

    def validator_of(schema):
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry

        if not isinstance(schema.get("$schema", ""), str):
            raise Refused("bad_schema", "the schema at $['$schema']: it is not a string")
        try:
            kind = validator_for(schema, default=Draft202012Validator)
            kind.check_schema(schema)
        except SchemaError as e:
            raise Refused("bad_schema", f"the schema at {e.json_path}: {shortened(e.message, 250)}")
        except UNFIT as e:
            raise Refused("bad_schema", f"the schema cannot be applied: {shortened(e, 200)}")
        return kind(schema, registry=Registry())  # one that fetches nothing

    def validate(validator, value):
        from referencing.exceptions import Unresolvable

        try:
            errors = list(itertools.islice(validator.iter_errors(value), 3))
        except Unresolvable as e:
            raise Refused("bad_schema", f"the schema refers to what is not in it: {shortened(e, 200)}")
        except UNFIT as e:
            raise Refused("bad_schema", f"the schema cannot be applied: {shortened(e, 200)}")
        if errors:
            raise Refused("schema_mismatch", "; ".join(
                f"{shortened(e.json_path, 40)}: {shortened(e.message, 80)}" for e in errors))

    def unpacked():
        """Refuses what would fill the memory; what is no archive is the parser's to refuse."""
        if suffix not in ("docx", "pptx", "xlsx"):
            return
        try:
            with zipfile.ZipFile("document." + suffix) as archive:
                size = sum(i.file_size for i in archive.infolist())
        except Exception:
            return
        if size > UNPACKED_MAX:
            raise Refused("document_unreadable", f"the document unpacks to {size} bytes, the maximum is {UNPACKED_MAX}")

    def encrypted():
        with open("document.pdf", "rb") as f:
            return b"/Encrypt" in f.read()

    def convert():
        from docling.datamodel.base_models import InputFormat
        from docling.datamodel.pipeline_options import NativePdfPipelineOptions
        from docling.document_converter import DocumentConverter, PdfFormatOption
        from docling.exceptions import BaseError
        from docling.pipeline.native_pdf_pipeline import NativePdfPipeline

        unpacked()
        pdf = PdfFormatOption(pipeline_cls=NativePdfPipeline, pipeline_options=NativePdfPipelineOptions())
        try:
            converter = DocumentConverter(allowed_formats=[InputFormat(suffix)], format_options={InputFormat.PDF: pdf})
            return converter.convert("document." + suffix)
        except MemoryError:
            raise
        except BaseError as e:
            reason = str(e).partition("Errors: ")[2] or str(e)
            reason = re.sub(r"( with hash| with key key=)? ?[0-9a-f]{64}", "", reason)
            if suffix == "pdf" and encrypted():
                reason += "; it is encrypted, and can be read only without a password"
        except Exception as e:  # a parser's own, on what it did not expect
            reason = f"{type(e).__name__}: {e}"
        raise Refused("document_unreadable", f"the document cannot be read as {suffix}: {shortened(reason, 250)}")

    def page_of(item):
        return item.prov[0].page_no if item.prov else None

    def table(item):
        made = {"rows": [[cell.text for cell in row] for row in item.data.grid]}
        page = page_of(item)
        return made if page is None else {**made, "page": page}

    def pages_without_text(document):
        """Numbers of a PDF's pages that have pictures alone, or nothing."""
        seen = {p.page_no for item in [*document.texts, *document.tables] for p in item.prov}
        return sorted(set(document.pages) - seen)

    def without_pictures(structure):
        """Their bytes are no text and would be most of the answer."""
        for item in [*structure.get("pictures", ()), *structure.get("tables", ()), *structure.get("pages", {}).values()]:
            item.pop("image", None)
        return structure

    def extract():
        validator = None
        if with_schema:  # refused before the seconds that Docling takes
            with open("schema.json", encoding="utf-8") as f:
                validator = validator_of(json.load(f))
        converted = convert()
        document = converted.document
        warnings = [shortened(e.error_message, 200) for e in converted.errors[:10]]
        if suffix == "pdf":
            empty = pages_without_text(document)
            if len(empty) == len(document.pages):
                raise Refused("document_unreadable", f"none of the {len(empty)} pages holds text: a scan needs OCR, "
                              "for which this runner has no models")
            if empty:
                warnings.append("pages without text (scans need OCR): " + shortened(", ".join(map(str, empty)), 150))
        value = {"text": document.export_to_text(), "markdown": document.export_to_markdown(),
                 "tables": [table(t) for t in document.tables],
                 "structure": without_pictures(document.export_to_dict())}
        if validator is not None:
            validate(validator, value)
        return {**value, "warnings": warnings}

    def answer():
        try:
            import docling  # noqa: F401
            return extract()
        except ImportError as e:
            return {"error": "extraction_unavailable", "detail": shortened(e, 100)}
        except Refused as e:
            return {"error": e.args[0], "detail": e.args[1]}

    def written(value):
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")

    made = written(answer())
    if len(made) > limit:
        made = written({"error": "extraction_too_large", "detail": f"what the document holds is {len(made)} bytes as "
                        f"JSON, the maximum is {limit} (SANDBOX_MAX_OUTPUT_BYTES)"})
    with open("extracted.new", "wb") as f:
        f.write(made)
    os.replace("extracted.new", "extracted.json")


