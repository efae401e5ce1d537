/* What stands in the image for the library GDAL, with which OpenCV reads maps where imread is told to, by
 * IMREAD_LOAD_GDAL; Caffe never does. GDAL and what it needs are 130 MB. Here every map fails to open, and OpenCV goes
 * no further: the functions behind GDALOpen are only there because OpenCV's library names them. */

void GDALAllRegister(void) {}
void *GDALOpen(const char *file, int access) { (void)file, (void)access; return 0; }
void GDALClose(void *dataset) { (void)dataset; }
const char *GDALGetDataTypeName(int type) { (void)type; return ""; }

#define NEVER_REACHED(name) void *name(void) { return 0; }
NEVER_REACHED(_ZN11GDALDataset13GetRasterBandEi)
NEVER_REACHED(_ZN11GDALDataset14GetRasterCountEv)
NEVER_REACHED(_ZN11GDALDataset14GetRasterXSizeEv)
NEVER_REACHED(_ZN11GDALDataset14GetRasterYSizeEv)
NEVER_REACHED(_ZN14GDALRasterBand17GetRasterDataTypeEv)
NEVER_REACHED(_ZN14GDALRasterBand8GetXSizeEv)
NEVER_REACHED(_ZN14GDALRasterBand8GetYSizeEv)
NEVER_REACHED(_ZN14GDALRasterBand8RasterIOE10GDALRWFlagiiiiPvii12GDALDataTypexxP20GDALRasterIOExtraArg)
NEVER_REACHED(_ZNK14GDALColorTable13GetColorEntryEi)
NEVER_REACHED(_ZNK14GDALColorTable24GetPaletteInterpretationEv)
